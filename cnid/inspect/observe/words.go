// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// Words describes packets with names instead of numbers.
type Words struct {
	Names
	nodeName, defaultVPC string
	// nodeShadows are the addresses under which the node speaks to shadows.
	nodeShadows []netip.Addr
}

// NewWords returns the Words of a node, which speaks to shadows under its own ones.
func NewWords(names Names, node, defaultVPC string, nodeShadows []netip.Addr) Words {
	return Words{Names: names, nodeName: node, defaultVPC: defaultVPC, nodeShadows: nodeShadows}
}

func (w Words) tell(e telemetry.Event) nodestatus.Packet {
	packet := nodestatus.Packet{
		Time: wallTime(e.Time), Node: w.nodeName, VPC: w.vpc(e.VNI), VNI: e.VNI, Passed: !e.Reason.Drop(),
		Direction: e.Direction.String(), Reason: e.Reason.String(), Means: e.Means(), Remedy: e.Reason.Remedy(),
		Routine: e.Reason.Routine(),
		Device:  fmt.Sprintf("device %d", e.Ifindex),
	}
	rec, ok := w.device(e.Ifindex)
	if ok {
		packet.Pod, packet.Device = rec.Pod.String(), rec.HostIfName
	}
	came, went := w.sides(e, packet.VPC, rec)
	if e.Came.Src.IsValid() || e.Came.Dst.IsValid() {
		packet.Proto = nodestatus.Protocol(e.Proto)
		packet.Came = ends(e.Came, came)
	}
	if e.Went != (telemetry.Tuple{}) {
		packet.Went = ends(e.Went, went)
	}
	if e.OuterSrc.IsValid() || e.OuterDst.IsValid() {
		packet.Outer = ends(telemetry.Tuple{Src: e.OuterSrc, Dst: e.OuterDst}, w.node)
	}
	return packet
}

// sides returns the functions that name a packet's ends before and after translation. A
// packet that leaves the VPC has the interface's shadow as source; one to a service of
// its VPC has not.
func (w Words) sides(e telemetry.Event, vpc string, rec journal.Record) (came, went func(netip.Addr) string) {
	inside, outside := w.inside(vpc), w.outside(rec)
	switch {
	case e.Direction == telemetry.ToPod:
		return outside, inside
	case e.Went.Src.IsValid() && (e.Went.Src == rec.Shadow4 || e.Went.Src == rec.Shadow6):
		return inside, outside
	}
	return inside, inside
}

// inside names the holder of an address inside a VPC.
func (w Words) inside(vpc string) func(netip.Addr) string {
	return func(ip netip.Addr) string {
		if name := w.holder(vpc, ip); name != "" {
			return name
		}
		if name := w.service(ip); name != "" {
			return "service " + name
		}
		return ""
	}
}

// outside names the holder of an address on the node, after the translation to shadow
// addresses.
func (w Words) outside(rec journal.Record) func(netip.Addr) string {
	return func(ip netip.Addr) string {
		switch {
		case !ip.IsValid():
			return ""
		case ip == rec.Shadow4 || ip == rec.Shadow6:
			return rec.Pod.String()
		case slices.Contains(w.nodeShadows, ip):
			return "node " + w.nodeName
		}
		if name := w.holder(w.defaultVPC, ip); name != "" {
			return name
		}
		if name := w.node(ip); name != "" {
			return "node " + name
		}
		return ""
	}
}

func ends(t telemetry.Tuple, name func(netip.Addr) string) *nodestatus.Ends {
	// Both addresses are read at once, so this one is not a missing address.
	if !t.Src.IsValid() && t.Dst.Is6() {
		t.Src = netip.IPv6Unspecified()
	}
	return &nodestatus.Ends{
		Src: nodestatus.End{IP: t.Src, Port: t.Sport, Name: name(t.Src)},
		Dst: nodestatus.End{IP: t.Dst, Port: t.Dport, Name: name(t.Dst)},
	}
}

// wallTime converts a time of the programs' clock.
func wallTime(at time.Duration) time.Time {
	now, err := datapath.MonotonicNow()
	if err != nil {
		return time.Now()
	}
	return time.Now().Add(at - now)
}
