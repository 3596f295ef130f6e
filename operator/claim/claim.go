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
	"net/netip"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
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
		rows, other, err := addresses.create(ctx, c, p.keep, ofChoice)
		if err != nil || other == nil {
			return rows, err
		}
		if !other.CountsFor(request.Holder, request.Node) {
			request.Exclude[other.IP] = struct{}{}
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

// ofChoice reports whether an Address is of the same choice as the planned row: the
// same holder may have another one of that name, of an earlier choice.
func ofChoice(real, row *store.Address) bool {
	return real.CountsFor(row.Holder, row.Node) && real.Attachment == row.Attachment && slices.Equal(real.Set, row.Set)
}
