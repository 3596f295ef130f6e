// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claim assigns addresses to holders: it creates the Address objects of all
// attachments of a holder, or none, and can be interrupted at any point. The creation
// of the object is the allocation, because object names are unique in the API.
package claim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/utils/clock"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
)

// rounds limits how often one call chooses again because another writer was faster.
// Reaching the limit is a sign of a store that lags far behind; the caller retries.
const rounds = 16

// ErrUnsettled reports that no address can be chosen yet: nodes may hold addresses
// that the API lacks. Existing addresses are returned all the same.
var ErrUnsettled = errors.New("waiting for the nodes to report what they hold")

// ErrHolderGone reports that the pod has ended, or the node or Service is gone, since
// its addresses were requested.
var ErrHolderGone = errors.New("the holder of the requested addresses is gone")

var errOutpaced = errors.New("other claims were faster every time: will be tried again")

// Term is the operator's term, as package rollcall keeps it.
type Term interface {
	// Settled reports whether addresses and VNIs may be chosen.
	Settled() bool
}

// Claimer creates and deletes Address objects, and keeps the store's rows of
// them ahead of the watch events.
type Claimer struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Store *store.Store
	// Resting has the addresses that were released shortly before.
	Resting *ipam.Resting
	Term    Term
	// Feed notifies other controllers.
	Feed  feed.Publisher
	Clock clock.PassiveClock
}

// Settled reports whether addresses may be chosen in this term.
func (c *Claimer) Settled() bool { return c.Term.Settled() }

// Wanted is the request of one attachment of a holder.
type Wanted struct {
	ipam.Request
	// Prefer are the IPs that the attachment holds or runs with, if any: it gets these or
	// none, and need not wait for the term to be settled.
	Prefer []netip.Addr
}

// Claim claims the addresses of one attachment, as ClaimAll does.
func (c *Claimer) Claim(ctx context.Context, request ipam.Request, prefer []netip.Addr) ([]*store.Address, error) {
	all, err := c.ClaimAll(ctx, []Wanted{{Request: request, Prefer: prefer}})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ClaimAll claims the addresses of all attachments of a holder, or none, and returns
// for each its rows, one per family, IPv4 first. The names of the attachments are
// unique. Addresses that an attachment holds in its VPC are kept, even if they differ
// from the request, except from Prefer. A refusal is an *ipam.Error, whose message names
// the attachment if there are several. Then nothing is reserved, and the caller has to
// release addresses of an earlier attempt. The caller may retry after other errors,
// after ErrUnsettled once the term is settled, but not after ErrHolderGone.
func (c *Claimer) ClaimAll(ctx context.Context, wanted []Wanted) ([][]*store.Address, error) {
	wanted = slices.Clone(wanted)
	for i := range wanted {
		wanted[i].Resting, wanted[i].Exclude = c.Resting, map[netip.Addr]struct{}{}
	}
	for range rounds {
		plans, err := c.reserve(wanted)
		if err != nil {
			return nil, err
		}
		for i, p := range plans {
			for _, row := range p.drop {
				if err := c.drop(ctx, row, wanted[i]); err != nil {
					return nil, err
				}
			}
		}
		if blocked(plans) {
			continue // the dropped addresses do not stand in the way any longer
		}
		if all, err := c.create(ctx, wanted, plans); err != nil || all != nil {
			return all, err
		}
	}
	return nil, errOutpaced
}

// create creates the objects of the planned rows, for all attachments at the same time. It returns
// nil instead of rows if an object exists but differs from the plan. It excludes the IP if the IP
// has another holder.
func (c *Claimer) create(ctx context.Context, wanted []Wanted, plans []plan) ([][]*store.Address, error) {
	all := make([][]*store.Address, len(plans))
	others := make([]*store.Address, len(plans))
	var group errgroup.Group
	for i, p := range plans {
		group.Go(func() (err error) {
			all[i], others[i], err = addresses.create(ctx, c, p.keep, ofChoice)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, other := range others {
		if other == nil {
			continue
		}
		if !other.CountsFor(wanted[i].Holder, wanted[i].Node) {
			wanted[i].Exclude[other.IP] = struct{}{}
		}
		all = nil
	}
	return all, nil
}

// reserve decides which addresses each attachment keeps, or chooses new ones, and puts
// rows for those to create into the store in the same transaction, so that no other
// request chooses them. While an attachment has addresses to drop first, it puts no
// rows. It puts none for a holder that is gone: the rows of such a holder were removed
// with it, and no later event would remove new ones.
func (c *Claimer) reserve(wanted []Wanted) ([]plan, error) {
	var plans []plan
	err := c.Store.Update(func(tx store.Tx) error {
		for _, w := range wanted {
			if !lives(tx, w.Holder) {
				return ErrHolderGone
			}
			plans = append(plans, decide(tx, w.Request, w.Prefer))
		}
		if blocked(plans) {
			return nil
		}
		for _, p := range plans { // before an address is chosen that completes one of them
			if err := assumeLacking(tx, p.keep); err != nil {
				return err
			}
		}
		for i, w := range wanted {
			if len(plans[i].keep) > 0 {
				continue
			}
			rows, err := c.choose(tx, w)
			if err != nil {
				return naming(err, w.Attachment, len(wanted))
			}
			plans[i].keep = rows
		}
		return nil
	})
	return plans, err
}

// choose chooses addresses for an attachment that has none, and reserves them.
func (c *Claimer) choose(tx store.Tx, w Wanted) ([]*store.Address, error) {
	if !c.Settled() && len(w.Prefer) == 0 {
		return nil, ErrUnsettled
	}
	w.Now = c.Clock.Now()
	result, err := ipam.Choose(tx, w.Request)
	if err != nil {
		return nil, err
	}
	return result.Rows, ipam.Assume(tx, result)
}

// naming adds the name of the attachment to a refusal if there are several.
func naming(err error, attachment string, of int) error {
	var refusal *ipam.Error
	if of == 1 || !errors.As(err, &refusal) {
		return err
	}
	named := *refusal
	named.Message = fmt.Sprintf("interface %s: %s", attachment, refusal.Message)
	return &named
}

// lives reports whether a holder exists and has not ended.
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

// ofChoice reports whether an Address belongs to the same choice as the planned row: the same
// holder may have another Address of that name, from an earlier choice.
func ofChoice(real, row *store.Address) bool {
	return real.CountsFor(row.Holder, row.Node) && real.Attachment == row.Attachment && real.External == row.External &&
		slices.Equal(real.Set, row.Set)
}
