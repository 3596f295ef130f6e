// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"cmp"
	"time"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// How long a flow is kept without a packet. The programs note packets with
// a resolution of one second.
const (
	idleEstablished = 2*time.Hour + 4*time.Minute // TCP, RFC 5382 REQ-5
	idleOpening     = time.Minute                 // TCP without a reply
	idleClosing     = 10 * time.Second            // TCP closed from both sides, or reset
	idleDatagram    = 30 * time.Second            // UDP, and protocols without ports
	idleDNS         = 6 * time.Second             // UDP to port 53, which resolvers retry after 5 s
)

const (
	portDNS   = 53
	protoSCTP = 132
)

// flow is the pair of entries of one flow.
type flow struct {
	forward, reverse       bpf.AliothConnKey
	hasForward, hasReverse bool
	ifindex                uint32
	lastSeen               time.Duration
	forwardFlags           bpf.AliothConnFlag
	reverseFlags           bpf.AliothConnFlag
	server                 uint16 // port of the side that did not open the flow
}

// closed reports whether the flow was closed from both sides, or reset.
func (f *flow) closed() bool {
	either, both := f.forwardFlags|f.reverseFlags, f.forwardFlags&f.reverseFlags
	return both&bpf.AliothConnFlagCONN_FIN != 0 || either&bpf.AliothConnFlagCONN_RST != 0
}

// answered reports whether the backend has sent anything.
func (f *flow) answered() bool { return f.reverseFlags&bpf.AliothConnFlagCONN_SEEN != 0 }

// idle returns the time that the flow may be silent.
func (f *flow) idle() time.Duration {
	switch {
	case f.forward.Proto == state.ProtoUDP && bpf.NetworkOrder(f.server) == portDNS:
		return idleDNS
	case f.forward.Proto != state.ProtoTCP && f.forward.Proto != protoSCTP:
		return idleDatagram
	case f.closed():
		return idleClosing
	case !f.answered():
		return idleOpening
	default:
		return idleEstablished
	}
}

// expired reports whether the flow has ended. Half a pair has no use, but is kept for
// some time, since its other half may be about to be written.
func (f *flow) expired(now time.Duration) bool {
	silent := now - f.lastSeen
	if !f.hasForward || !f.hasReverse {
		return silent > time.Second
	}
	return silent > f.idle()
}

// pairFlows joins the entries that belong together, keyed by the forward key. The reverse
// entry of a flow that has moved to another backend since is by itself, under its own key.
func pairFlows(entries map[bpf.AliothConnKey]bpf.AliothConn) map[bpf.AliothConnKey]*flow {
	flows := map[bpf.AliothConnKey]*flow{}
	for key, row := range entries {
		forward, reverse := key, counterpart(key, row)
		if key.Direction == bpf.AliothConnDirectionCONN_REVERSE {
			forward, reverse = reverse, forward
		}
		name := forward
		if last, ok := entries[forward]; ok && (last.Addr != reverse.Peer || last.Port != reverse.PeerPort ||
			cmp.Or(last.PodPort, forward.PodPort) != reverse.PodPort) {
			name = key
		}
		f, ok := flows[name]
		if !ok {
			f = &flow{forward: forward, reverse: reverse, ifindex: row.Ifindex, server: forward.PeerPort}
			flows[name] = f
		}
		f.lastSeen = max(f.lastSeen, time.Duration(row.LastSeen))
		if key.Direction == bpf.AliothConnDirectionCONN_REVERSE {
			f.hasReverse, f.reverseFlags = true, row.Flags
		} else {
			f.hasForward, f.forwardFlags, f.reverse = true, row.Flags, reverse
		}
	}
	return flows
}

// counterpart returns the key of the other entry of a pair.
func counterpart(key bpf.AliothConnKey, row bpf.AliothConn) bpf.AliothConnKey {
	other := key
	other.Direction = bpf.AliothConnDirectionCONN_REVERSE
	if key.Direction == bpf.AliothConnDirectionCONN_REVERSE {
		other.Direction = bpf.AliothConnDirectionCONN_FORWARD
	}
	other.Peer, other.PeerPort = row.Addr, row.Port
	if row.PodPort != 0 { // the backend sees another port than the pod's own
		other.PodPort = row.PodPort
	}
	if row.Outside != 0 { // the service is in the VPC, the backend outside of it
		other.Inside = 1 - key.Inside
	}
	return other
}

// service returns the key of the flow's service.
func (f *flow) service() bpf.AliothServiceKey {
	key := bpf.AliothServiceKey{Vip: f.forward.Peer, Port: f.forward.PeerPort, Proto: f.forward.Proto}
	if f.forward.Inside != 0 {
		key.Vni = f.forward.Vni
	}
	return key
}

// hasEnd reports whether a flow still has a service and a backend. TCP flows are kept
// until they end by themselves. The programs check the flows of sockets that ask their peer
// by its own address.
func (f *flow) hasEnd(in Services) bool {
	if (f.forwardFlags|f.reverseFlags)&bpf.AliothConnFlagCONN_BY_SOCKET != 0 {
		return true
	}
	if f.forward.Proto == state.ProtoTCP {
		return in.HasService(f.service())
	}
	backend := bpf.AliothBackend{Ip: f.reverse.Peer, Port: f.reverse.PeerPort}
	if f.forward.Inside != f.reverse.Inside {
		backend.Outside = 1
	}
	return in.HasBackend(f.service(), backend)
}
