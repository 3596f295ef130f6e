// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/cnid/cluster/roles"
	"github.com/alioth-net/alioth/cnid/cluster/rollcall"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	rolerows "github.com/alioth-net/alioth/store/rows/roles"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// holder is a node that holds the watches of a daemon. It decodes the events of the watches, and
// counts them. It keeps only the rows that the daemon's sources and its roll call depend on: its
// Node, its pods and their Addresses, the VPCs that it has pods of with their Subnets and role
// members, the operator's verdicts about Services, and the operator's question.
type holder struct {
	*node
	roll *rollcall.RollCall
	// mu guards listed, the node's report about roles.
	mu      sync.Mutex
	listed  map[string]int64
	changed broadcast.Signal
}

// newHolder returns a holder that follows nothing yet. The node may come to have pods of vpcs, and
// of no other VPC.
func newHolder(name string, via access, vpcs map[string]bool, log *slog.Logger) (*holder, error) {
	keep := func(row any) bool { return isOwn(name, vpcs, row) }
	n, err := newNode(name, via, nil, func(kind *descriptor.Kind) *descriptor.Kind { return discarding(kind, keep) }, nil, log)
	if err != nil {
		return nil, err
	}
	h := &holder{node: n}
	h.roll = rollcall.New(name, n.store, h, n.api, n.sources.VPCsRead, unprogrammed{n}, n.size, time.Minute, n.log)
	h.roles = roles.New(name, n.api, n.store, h.listing, n.size, n.log)
	return h, nil
}

// start starts the loops of the node, which end with ctx.
func (h *holder) start(ctx context.Context, group *errgroup.Group) {
	h.sources.Start(ctx)
	run(ctx, group, h.sources.Run, h.roll.Run, h.roles.Run, h.list)
}

// isOwn reports whether a holder keeps a row.
func isOwn(node string, vpcs map[string]bool, row any) bool {
	switch row := row.(type) {
	case *store.Node:
		return row.Name == node
	case *store.Address:
		return row.Node == node
	case *store.VPC:
		return vpcs[row.Name]
	case *store.Subnet:
		return vpcs[row.VPC] // it decides which tables are followed
	case *store.Pod, *store.RollCall, *rolerows.Member, *scaled.Endpoint:
		return true // the node's watches bring only rows that a daemon keeps
	}
	return false
}

// Records returns the records that the node would have of its pods, as far as a reply to a roll
// call depends on them.
func (h *holder) Records() (records []journal.Record) {
	h.store.View(func(tx store.ReadTx) {
		for _, row := range store.AddressesByNode(tx, h.name) {
			if pod := row.Holder; pod.Kind == store.HolderPod {
				records = append(records, journal.Record{
					Identity:  journal.Identity{Pod: journal.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}},
					Binding:   journal.Binding{VPC: row.VPC},
					Interface: journal.Interface{Addrs: []netip.Prefix{netip.PrefixFrom(row.IP, row.IP.BitLen())}},
				})
			}
		}
	})
	return records
}

// list keeps the node's report about roles: a holder has programmed the rows that it has read.
func (h *holder) list(ctx context.Context) {
	last := map[string]int64{}
	for ctx.Err() == nil {
		var now map[string]int64
		// An error means that ctx has ended.
		_ = h.store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
			synced, changed := h.sources.Synced()
			ws.Add(changed)
			if now = h.look(tx); !synced {
				return false
			}
			return h.isFirst() || !maps.Equal(now, last)
		})
		last = now
		h.mu.Lock()
		h.listed = now
		h.changed.Send()
		h.mu.Unlock()
	}
}

func (h *holder) isFirst() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listed == nil
}

// look returns the revision of the members of each VPC whose members have been read, by the
// VPC's UID.
func (h *holder) look(tx store.ReadTx) map[string]int64 {
	listed, tables := map[string]int64{}, h.sources.Tables()
	for _, name := range h.sources.VPCs() {
		vpc := store.GetVPC(tx, name)
		if vpc == nil || !tables.Of(name).Members {
			continue
		}
		for _, m := range rolerows.MembersByVPC(tx, name) {
			listed[vpc.UID] = max(listed[vpc.UID], m.Revision)
		}
	}
	return listed
}

// listing returns the plan that the reporter of roles asks for.
func (h *holder) listing() (plan.Roles, bool, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return plan.Roles{Listed: h.listed}, h.listed != nil, h.changed.Next()
}

// discarding returns a kind that makes the same rows, and forgets rows that keep refuses.
func discarding(kind *descriptor.Kind, keep func(row any) bool) *descriptor.Kind {
	less := *kind
	less.OnNode, less.Of = rescoped(kind.OnNode, keep), descriptor.Scopes{}
	for extent, narrow := range kind.Of {
		less.Of[extent] = rescoped(narrow, keep)
	}
	return &less
}

// rescoped returns scopes whose kind discards rows that keep refuses.
func rescoped(narrow func(string) descriptor.Scope, keep func(row any) bool) func(string) descriptor.Scope {
	if narrow == nil {
		return nil
	}
	return func(name string) descriptor.Scope {
		scope := narrow(name)
		kind := *scope.Kind
		kind.Rows = kept{kind.Rows, keep}
		scope.Kind = &kind
		return scope
	}
}

// kept makes the same rows, and forgets rows that keep refuses.
type kept struct {
	descriptor.Rows
	keep func(row any) bool
}

// Row implements descriptor.Rows.
func (k kept) Row(object kube.Object) (any, error) {
	made, err := k.Rows.Row(object)
	if err != nil || !k.keep(made) {
		return nil, err
	}
	return made, nil
}

// unprogrammed are the passes of a node that programs nothing. It answers roll calls with
// the VNIs that it follows.
type unprogrammed struct{ *node }

// PodMTU implements rollcall.Passes.
func (u unprogrammed) PodMTU() (int, <-chan struct{}) { return podMTU, nil }

// Programmed implements rollcall.Passes.
func (u unprogrammed) Programmed(context.Context) error { return nil }

// VNIs implements rollcall.Passes.
func (u unprogrammed) VNIs() (all []uint32) {
	u.store.View(func(tx store.ReadTx) {
		for _, name := range u.sources.VPCs() {
			if vpc := store.GetVPC(tx, name); vpc != nil && vpc.VNI != 0 {
				all = append(all, vpc.VNI)
			}
		}
	})
	slices.Sort(all)
	return all
}
