// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claim makes addresses belong to somebody: it creates the Address
// objects of an attachment, all of them or none, and survives being interrupted
// at any point. The creation of the object is the allocation; the API server
// lets each name exist once.
package claim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
)

// rounds bounds how often one call chooses anew because somebody else was
// faster. More is a sign of a store that lags far behind; the caller retries.
const rounds = 16

// ErrUnsettled says that nothing can be chosen yet: nodes may hold addresses
// that the API does not know. What exists is served all the same.
var ErrUnsettled = errors.New("waiting for the nodes to report what they hold")

// ErrHolderGone says that the pod has ended, or the node or Service is gone, since
// somebody asked for its addresses.
var ErrHolderGone = errors.New("the holder of the requested addresses is gone")

var errOutpaced = errors.New("other claims were faster every time: will be tried again")

// Claimer creates and deletes Address objects, and keeps the store's rows of
// them ahead of the watch events.
type Claimer struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Store *store.Store
	// Resting knows the addresses released a short while ago.
	Resting *ipam.Resting
	// Settled tells whether addresses may be chosen (package rollcall).
	Settled func() bool
	// Publish tells others what went from the store ahead of the watch event.
	Publish func(feed.Change)
	Now     func() time.Time
}

// Claim gives an attachment its addresses and returns their rows, one per
// family, IPv4 first. What the attachment holds in that VPC already is kept,
// whatever else the request says, but for prefer, which is what it was told or ran
// with: it has that or nothing, and need not wait for the term to be settled. A refusal is
// an *ipam.Error; every other error is worth trying again, ErrUnsettled once the
// term is settled, but for ErrHolderGone.
func (c *Claimer) Claim(ctx context.Context, request ipam.Request, prefer []netip.Addr) ([]*store.Address, error) {
	request.Resting, request.Exclude = c.Resting, map[netip.Addr]struct{}{}
	for range rounds {
		request.Now = c.Now()
		p, err := c.reserve(request, prefer)
		if err != nil {
			return nil, err
		}
		for _, row := range p.drop {
			if err := c.drop(ctx, row); err != nil {
				return nil, err
			}
		}
		if len(p.keep) == 0 {
			continue // what was dropped is out of the way now
		}
		rows, taken, err := c.create(ctx, p.keep)
		if err != nil {
			return nil, err
		}
		if rows != nil {
			return rows, nil
		}
		if taken.IsValid() {
			request.Exclude[taken] = struct{}{}
		}
	}
	return nil, errOutpaced
}

// reserve decides what to keep, or chooses, and puts rows for what is to be
// created into the store in the same transaction, so that nobody else chooses
// it meanwhile. Nothing is put for a holder that is gone: whoever saw it go has
// forgotten what there was, and nobody would forget what comes now.
func (c *Claimer) reserve(request ipam.Request, prefer []netip.Addr) (plan, error) {
	var p plan
	err := c.Store.Update(func(tx store.Tx) error {
		if !lives(tx, request.Holder) {
			return ErrHolderGone
		}
		p = decide(tx, request, prefer)
		if len(p.keep) > 0 {
			return assumeLacking(tx, p.keep)
		}
		if len(p.drop) > 0 {
			return nil
		}
		if !c.Settled() && len(prefer) == 0 {
			return ErrUnsettled
		}
		result, err := ipam.Choose(tx, request)
		if err != nil {
			return err
		}
		p.keep = result.Rows
		return ipam.Assume(tx, result)
	})
	return p, err
}

// lives tells whether a holder is there, and has not ended.
func lives(tx store.ReadTx, holder store.Holder) bool {
	switch holder.Kind {
	case store.HolderNode:
		node := store.GetNode(tx, holder.Name)
		return node != nil && node.UID == holder.UID
	case store.HolderService:
		service := store.GetService(tx, holder.Namespace, holder.Name)
		return service != nil && service.UID == holder.UID && !service.Deleting
	case store.HolderPod:
	}
	pod := store.GetPod(tx, holder.UID)
	return pod != nil && !pod.Deleting && !pod.Terminal
}

func assumeLacking(tx store.Tx, rows []*store.Address) error {
	for _, row := range rows {
		if store.GetAddress(tx, row.Name) != nil {
			continue
		}
		if err := store.AssumeAddress(tx, row); err != nil {
			return err
		}
	}
	return nil
}

// create creates the objects of the rows that have no UID yet. It returns no
// rows where one of the objects turns out to exist otherwise than planned, and
// the IP where somebody else has it. After an error, which may hide a success,
// the rows stay assumed: the next call asks for the same names and recognises
// its own.
func (c *Claimer) create(ctx context.Context, rows []*store.Address) (_ []*store.Address, taken netip.Addr, _ error) {
	made := make([]*store.Address, 0, len(rows))
	for _, row := range rows {
		if row.UID != "" {
			made = append(made, row)
			continue
		}
		object, assumed := objectOf(row), c.assumed(row)
		err := c.Client.Create(ctx, object)
		if apierrors.IsAlreadyExists(err) {
			object, err = c.existing(ctx, row)
		}
		if err != nil {
			return nil, netip.Addr{}, fmt.Errorf("claim %s of VPC %s: %w", row.IP, row.VPC, err)
		}
		real, err := c.confirm(object, assumed)
		if err != nil {
			return nil, netip.Addr{}, err
		}
		if !real.CountsFor(row.Holder, row.Node) {
			return nil, row.IP, nil
		}
		if real.Attachment != row.Attachment || !slices.Equal(real.Set, row.Set) {
			return nil, netip.Addr{}, nil // of another choice of the same holder
		}
		made = append(made, real)
	}
	return made, netip.Addr{}, nil
}

// existing reads the object that was faster. It may be one of ours, created by
// a call whose answer got lost.
func (c *Claimer) existing(ctx context.Context, row *store.Address) (*v1alpha1.Address, error) {
	object := &v1alpha1.Address{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: row.Name}, object); err != nil {
		return nil, fmt.Errorf("read the object in the way: %w", err)
	}
	return object, nil
}

// assumed returns the row that stands for an address until it is created.
func (c *Claimer) assumed(row *store.Address) (found *store.Address) {
	c.Store.View(func(tx store.ReadTx) { found = store.GetAddress(tx, row.Name) })
	return found
}

func (c *Claimer) confirm(object *v1alpha1.Address, assumed *store.Address) (*store.Address, error) {
	row, err := kinds.Address.Convert(object)
	if err != nil {
		return nil, err
	}
	return row, c.Store.Update(func(tx store.Tx) error { return store.ConfirmAddress(tx, assumed, row) })
}

func objectOf(row *store.Address) *v1alpha1.Address {
	ips := make([]string, 0, len(row.Set))
	for _, ip := range row.Set {
		ips = append(ips, ip.String())
	}
	return &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: row.Name},
		Spec: v1alpha1.AddressSpec{
			VPC: row.VPC, Subnet: row.Subnet, IP: row.IP.String(), MAC: row.MAC, Node: row.Node,
			Holder: v1alpha1.AddressHolder{
				Kind: v1alpha1.HolderKind(row.Holder.Kind), Namespace: row.Holder.Namespace,
				Name: row.Holder.Name, UID: row.Holder.UID,
			},
			Attachment: row.Attachment,
			Set:        ips,
		},
	}
}
