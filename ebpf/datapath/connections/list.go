// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// Connection is a flow of a pod to a shared service.
type Connection struct {
	VNI     uint32
	Ifindex int
	Proto   uint8
	Pod     netip.AddrPort
	// Service is the address that the pod sends to, Backend the one that gets it.
	Service, Backend netip.AddrPort
	// LastSeen is on the monotonic clock, with a resolution of a second.
	LastSeen time.Duration
	// Answered reports that the backend has sent a packet, Closed that the flow has
	// been reset or closed from both sides.
	Answered, Closed bool
}

// List reads the table of flows to shared services, ordered by VPC, pod
// and service. Halves of flows are left out.
func List(in bpf.Maps) ([]Connection, error) {
	entries, err := readEntries[bpf.AliothConn](in[bpf.ConnectionsMap])
	if err != nil {
		return nil, err
	}
	var list []Connection
	for _, f := range pairFlows(entries) {
		if !f.hasForward || !f.hasReverse {
			continue
		}
		list = append(list, Connection{
			VNI: f.forward.Vni, Ifindex: int(f.ifindex), Proto: f.forward.Proto,
			Pod:      netip.AddrPortFrom(bpf.DecodeAddr(f.forward.Pod), bpf.NetworkOrder(f.forward.PodPort)),
			Service:  netip.AddrPortFrom(bpf.DecodeAddr(f.forward.Peer), bpf.NetworkOrder(f.forward.PeerPort)),
			Backend:  netip.AddrPortFrom(bpf.DecodeAddr(f.reverse.Peer), bpf.NetworkOrder(f.reverse.PeerPort)),
			LastSeen: f.lastSeen, Answered: f.answered(), Closed: f.closed(),
		})
	}
	slices.SortFunc(list, Connection.compare)
	return list, nil
}

func (c Connection) compare(other Connection) int {
	return cmp.Or(
		cmp.Compare(c.VNI, other.VNI),
		c.Pod.Compare(other.Pod),
		c.Service.Compare(other.Service),
		cmp.Compare(c.Proto, other.Proto),
	)
}
