// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
)

func TestTrial_AfterAnother_Independent(t *testing.T) {
	w := world.New(t)
	opening := world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagSYN}).Bytes()
	data := world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagACK}).Bytes()
	first, later := world.DatagramIn(world.FromA(func(f *wire.Frame) { f.Dst = wire.IP(world.Outside) }), wire.UDP{Sport: 1000, Dport: 2000}, 1)
	for range 4 { // which is more than the interface's share of flows
		for _, c := range []struct {
			device int
			in     []byte
			want   string
		}{
			{w.PodA, opening, "to_stack"},
			{w.PodA, data, "no_connection"},
			{w.Open, first.Bytes(), "to_stack"},
			{w.Open, later.Bytes(), "egress_fragment"},
		} {
			outcome, err := w.TryFromPod(c.device, c.in)
			if err != nil || outcome.Reason.String() != c.want {
				t.Errorf("%x: %s, %v, want %s", c.in, outcome.Reason, err, c.want)
			}
		}
	}
}

func TestTrial_TunnelPacket_EqualsProgram(t *testing.T) {
	w := world.New(t)
	trial := w.Trial(t)
	inner := func(mutate func(*wire.Frame)) []byte {
		f := wire.Frame{
			EthDst: world.MacA, EthSrc: world.MacR, Src: wire.IP("10.0.1.20"), Dst: wire.IP("10.0.1.10"), L4: wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN},
		}
		mutate(&f)
		return f.Bytes()
	}
	for name, c := range map[string]struct {
		vni  uint32
		node netip.Addr
		in   []byte
		want string
	}{
		"to a pod":                  {world.VNIRed, wire.IP("192.0.2.2"), inner(world.Unchanged), "forwarded_local"},
		"over IPv6":                 {world.VNIRed, wire.IP("2001:db8::2"), inner(world.Unchanged), "forwarded_local"},
		"from no node":              {world.VNIRed, wire.IP("192.0.2.66"), inner(world.Unchanged), "unknown_node"},
		"of no VPC":                 {999, wire.IP("192.0.2.2"), inner(world.Unchanged), "returned"},
		"to nobody":                 {world.VNIRed, wire.IP("192.0.2.2"), inner(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.99") }), "returned"},
		"under a local pod's":       {world.VNIRed, wire.IP("192.0.2.2"), inner(func(f *wire.Frame) { f.Src = wire.IP("10.0.1.11") }), "spoofed_local"},
		"to a pod that has moved":   {world.VNIRed, wire.IP("192.0.2.2"), inner(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.20") }), "returned"},
		"to a group":                {world.VNIRed, wire.IP("192.0.2.2"), inner(func(f *wire.Frame) { f.Dst = wire.IP("224.0.0.1") }), "tunnel_flood"},
		"to a pod of the other VPC": {world.VNIBlue, wire.IP("192.0.2.2"), inner(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.11") }), "returned"},
	} {
		t.Run(name, func(t *testing.T) {
			bpftest.Enter(t, w.NS)
			before := w.Traces(t)
			outcome, err := trial.FromTunnel(c.vni, c.node, c.in)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(before, w.Traces(t)); d != "" {
				t.Errorf("a trial leaves traces (-before +after):\n%s", d)
			}
			real := bpftest.Counts(t, w.Datapath)
			world.Run(t, world.Tunnelled(t, w, c.vni, c.node), w.PodA, c.in)
			if d := cmp.Diff(world.One("from_tunnel/"+c.want), bpftest.Added(real, bpftest.Counts(t, w.Datapath))); d != "" {
				t.Errorf("program (-want +got):\n%s", d)
			}
			if outcome.Reason.String() != c.want {
				t.Errorf("trial: %s, want %s", outcome.Reason, c.want)
			}
		})
	}
}

func TestTry_OnePacket_ReasonReported(t *testing.T) {
	w := world.New(t)
	outcome, err := w.TryFromPod(w.PodA, world.FromA(world.Unchanged).Bytes())
	if err != nil || outcome.Reason.String() != "forwarded_local" {
		t.Errorf("from a pod: %v, %v", outcome.Reason, err)
	}
	arrives := wire.Frame{EthDst: world.MacA, EthSrc: world.MacR, Src: wire.IP("10.0.1.20"), Dst: wire.IP("10.0.1.10"), L4: wire.UDP{Sport: 1, Dport: 2}}
	outcome, err = w.TryFromTunnel(world.VNIRed, wire.IP("192.0.2.2"), arrives.Bytes())
	if err != nil || outcome.Reason.String() != "forwarded_local" {
		t.Errorf("from another node: %v, %v", outcome.Reason, err)
	}
}

func TestTrial_ExistingFlow_TreatedAsNew(t *testing.T) {
	w := world.New(t) // with a share of 2
	trial := w.Trial(t)
	query := func(port uint16) []byte { return world.Ask(wire.UDP{Sport: port, Dport: 53}).Bytes() }
	try := func(in []byte) string {
		t.Helper()
		outcome, err := trial.FromPod(w.PodA, in)
		if err != nil {
			t.Fatal(err)
		}
		return outcome.Reason.String()
	}
	for _, port := range []uint16{1001, 1002} {
		if got := try(query(2000)); got != "to_stack" {
			t.Errorf("with room for a flow: %s", got)
		}
		world.Run(t, w.Objects.AliothFromPod, w.PodA, query(port))
	}
	if got := try(query(2001)); got != "conn_limit" {
		t.Errorf("when the share is used up: %s, want conn_limit", got)
	}
	drops := readDrops(t, w)
	if n := drops.Ring.AvailableBytes(); n != 0 {
		t.Errorf("trials have reported %d bytes of drops", n)
	}
}
