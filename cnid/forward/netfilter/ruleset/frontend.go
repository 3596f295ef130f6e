// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Frontend is an address and port that leads from outside, and from this node, to the
// backends of a Service. It is immutable: a changed frontend is a new value.
type Frontend struct {
	// Protocol is IPPROTO_TCP (6) or IPPROTO_UDP (17).
	Protocol uint8
	// IP is the destination. The unspecified address of a family (0.0.0.0, ::)
	// stands for all addresses of the node except loopback.
	IP netip.Addr
	// Port is 1 to 65535.
	Port uint16
	// All are the places for new flows, all with the same share: for a backend on this
	// node its shadow and port; for a backend on another node that node's address in
	// the default VPC and the port for packets of other nodes; for a pod on the network
	// of this node the node's own address and the pod's port. Without a place, flows
	// are refused.
	All []netip.AddrPort
	// Own are the places for packets of the node itself, if they differ from All: they
	// may contain a port of another node at an address outside of the default VPC, so
	// that the backend sees this node's own address. nil: All.
	Own []netip.AddrPort
	// Here are the places on this node. Packets of other nodes go only to these.
	Here []netip.AddrPort
	// Local: packets from outside go only to Here, and keep their source. They are
	// dropped if only other nodes have a place. Packets of the node itself keep their
	// source too.
	Local bool
	// Hidden are sources that are not preserved although the frontend is Local: a
	// backend could not reply to them.
	Hidden []netip.Prefix
	// Sources are the ranges of clients outside that are served; nil: all clients.
	Sources []netip.Prefix
	// Affinity is how long after its last new flow a client address gets the same
	// place, if that is still valid; whole seconds, 0: no affinity.
	Affinity time.Duration
	// VNI is the VNI of the backends' VPC: each VPC has its own maps of clients. It is 0
	// without Affinity.
	VNI uint32
}

// MaxSlots limits All, Own and Here. It is the maximum number of backends of a Service.
const MaxSlots = 1000

func (f *Frontend) validate() error {
	switch {
	case f.Protocol != unix.IPPROTO_TCP && f.Protocol != unix.IPPROTO_UDP:
		return fmt.Errorf("protocol %d is not TCP or UDP", f.Protocol)
	case !f.IP.IsValid() || f.Port == 0:
		return errors.New("no address or no port")
	case f.Affinity < 0 || f.Affinity%time.Second != 0 || (f.Affinity == 0) != (f.VNI == 0):
		return fmt.Errorf("affinity %s is not whole seconds of a VPC, whose VNI is %d", f.Affinity, f.VNI)
	case max(len(f.All), len(f.Own), len(f.Here)) > MaxSlots:
		return fmt.Errorf("more than %d places to go to", MaxSlots)
	}
	for _, place := range f.Places() {
		if place.Addr().Is4() != f.IP.Is4() || place.Port() == 0 {
			return fmt.Errorf("%v is no place of the family of %v", place, f.IP)
		}
	}
	return nil
}

// Places are the places for all kinds of clients.
func (f *Frontend) Places() []netip.AddrPort { return slices.Concat(f.All, f.Own, f.Here) }

// Compare orders frontends by address, protocol and port. A packet has one value of each.
func (f *Frontend) Compare(o *Frontend) int {
	return cmp.Or(f.IP.Compare(o.IP), cmp.Compare(f.Protocol, o.Protocol), cmp.Compare(f.Port, o.Port))
}

// Equal compares all fields.
func (f *Frontend) Equal(o *Frontend) bool {
	return f == o || f.Compare(o) == 0 && f.Local == o.Local && f.Affinity == o.Affinity && f.VNI == o.VNI &&
		slices.Equal(
			f.All,
			o.All,
		) && slices.Equal(f.Own, o.Own) && slices.Equal(f.Here, o.Here) && slices.Equal(f.Hidden, o.Hidden) &&
		slices.Equal(f.Sources, o.Sources) && (f.Sources == nil) == (o.Sources == nil)
}

// OfNode reports whether the frontend is at all of the node's addresses.
func (f *Frontend) OfNode() bool { return f.IP.IsUnspecified() }

// Preserves reports whether the frontend preserves the addresses of clients from outside.
func (f *Frontend) Preserves() bool { return f.Local && len(f.Here) > 0 }

// ValidateFrontends reports the first frontend that the table could not hold.
func ValidateFrontends(list []*Frontend) error {
	for _, f := range list {
		if err := f.validate(); err != nil {
			return fmt.Errorf("port %d of a service: %w", f.Port, err)
		}
	}
	return nil
}

// ChangedFrontends are the frontends of sorted lists that the other one does not have in
// the same way.
func ChangedFrontends(last, want []*Frontend) (gone, come []*Frontend) {
	for len(last) > 0 || len(want) > 0 {
		switch order := compareHeads(last, want); {
		case order < 0:
			gone, last = append(gone, last[0]), last[1:]
		case order > 0:
			come, want = append(come, want[0]), want[1:]
		default:
			if !last[0].Equal(want[0]) {
				gone, come = append(gone, last[0]), append(come, want[0])
			}
			last, want = last[1:], want[1:]
		}
	}
	return gone, come
}

// compareHeads compares the first elements of both lists. An empty list comes last.
func compareHeads(a, b []*Frontend) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	case a[0] == b[0]:
		return 0
	}
	return a[0].Compare(b[0])
}
