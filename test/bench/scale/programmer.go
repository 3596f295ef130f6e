// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/foreign"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/forward/reconcile"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// podMTU is the MTU for pods on a network of nodes with 1,500 bytes, and nodePeer the index
// of the device in the default VPC.
const (
	podMTU   = 1450
	nodePeer = 2
)

// place is an address, on this node or on another one.
type place struct {
	ip    netip.Addr
	local bool
}

// programmer takes the place of a node's kernel: a plan counts as programmed when it is
// there. Devices exist as soon as a record names them.
type programmer struct {
	mu sync.Mutex
	// watched is the VNI whose addresses are noted; known are its addresses in the last
	// plan, with the time when the first plan had them.
	watched uint32
	part    *state.State
	known   map[place]time.Time
	rows    int
	changed broadcast.Signal
}

var _ reconcile.Programmer = (*programmer)(nil)

// Prepare implements reconcile.Programmer.
func (p *programmer) Prepare(self *store.Node, _ bool) error {
	if self == nil || len(self.Addresses) == 0 {
		return errors.New("the Node object has no InternalIP")
	}
	return nil
}

// Made implements reconcile.Programmer.
func (p *programmer) Made() reconcile.Made { return reconcile.Made{PodMTU: podMTU, NodePeer: nodePeer} }

// Existing implements reconcile.Programmer.
func (p *programmer) Existing(names []string) (map[string]int, error) {
	indexes := map[string]int{}
	for _, name := range names {
		indexes[name] = indexOf(name)
	}
	return indexes, nil
}

// Apply implements reconcile.Programmer.
func (p *programmer) Apply(want plan.Wanted, _ reconcile.Scope) (map[int]error, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows = 0
	for _, part := range want.Datapath.VPCs {
		for _, address := range part.Addresses {
			if address.Kind == state.Local || address.Kind == state.Remote {
				p.rows++
			}
		}
	}
	part := want.Datapath.VPCs[p.watched]
	if part == p.part || part == nil {
		return nil, nil
	}
	p.part = part
	now := time.Now()
	for _, address := range part.Addresses {
		at := place{address.IP, address.Kind == state.Local}
		if _, ok := p.known[at]; !ok {
			p.known[at] = now
		}
	}
	p.changed.Send()
	return nil, nil
}

// TakeRepairs implements reconcile.Programmer.
func (p *programmer) TakeRepairs() []finding.Repair { return nil }

// Traffic implements reconcile.Programmer.
func (p *programmer) Traffic() foreign.Traffic { return foreign.Traffic{} }

// Survey implements reconcile.Programmer.
func (p *programmer) Survey() (bool, error) { return false, nil }

// await returns the time when plans first have an address of the watched VNI. On the pod's own node
// this is the time when the address is local: the API's row comes before the interface.
func (p *programmer) await(ctx context.Context, ip netip.Addr, local bool) (time.Time, error) {
	for {
		p.mu.Lock()
		at, changed := p.known[place{ip, local}], p.changed.Next()
		p.mu.Unlock()
		if !at.IsZero() {
			return at, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return at, context.Cause(ctx)
		}
	}
}

// held returns the number of addresses in the last plan, gateways left out.
func (p *programmer) held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rows
}
