// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// ActNext hands a packet to the next program of a hook, and to the stack.
const ActNext = 0xffffffff

// MacUplink is the address of the node's uplink.
var MacUplink = state.MAC{0x02, 0, 0, 0, 0, 0xee}

// OnUnderlay gives a world the device with the node's tunnel addresses.
func OnUnderlay(t testing.TB) func(*programs.Config) {
	t.Helper()
	return func(cfg *programs.Config) {
		bpftest.Enable(t, "net/ipv4/ip_forward")
		cfg.UnderlayIfindex = bpftest.AddLink(t, &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "underlay", MTU: 1500, HardwareAddr: MacUplink[:]}, PeerName: "underlay-peer",
		})
		// Not for all devices: each would report that it is a router, at any moment.
		bpftest.Enable(t, "net/ipv6/conf/underlay/forwarding")
		cfg.UnderlayIfindex6 = cfg.UnderlayIfindex
		bpftest.AddAddr(t, cfg.UnderlayIfindex, wire.Prefix("192.0.2.1/24"))
		bpftest.AddAddr(t, cfg.UnderlayIfindex, wire.Prefix("2001:db8::1/64"))
		cfg.TunnelSource4, cfg.TunnelSource6 = wire.IP("192.0.2.1"), wire.IP("2001:db8::1")
	}
}

// Wrapped is an inner packet in the tunnel of a node.
type Wrapped struct {
	Eth   state.MAC
	From  netip.Addr
	To    netip.Addr
	Port  uint16
	Flags uint8
	VNI   uint32
	Check bool
	Inner []byte
	Frag  *wire.Fragment
	Opts  []byte
}

// Bytes returns the packet as it comes from another node.
func (p Wrapped) Bytes() []byte {
	header := binary.BigEndian.AppendUint32([]byte{p.Flags, 0, 0, 0}, p.VNI<<8)
	return wire.Frame{
		EthDst: p.Eth, EthSrc: MacR, Src: p.From, Dst: p.To, Fragment: p.Frag, Options: p.Opts,
		L4: wire.UDP{Sport: 50000, Dport: p.Port, NoChecksum: !p.Check, Payload: append(header, p.Inner...)},
	}.Bytes()
}

// Tunnelled returns a program that gives a packet the tunnel key which the
// VXLAN device would give it, and goes on to alioth_from_tunnel.
func Tunnelled(t testing.TB, w *World, vni uint32, node netip.Addr) *ebpf.Program {
	t.Helper()
	return tunnelledTo(t, w.Objects.AliothFromTunnel, vni, node)
}

func tunnelledTo(t testing.TB, next *ebpf.Program, vni uint32, node netip.Addr) *ebpf.Program {
	t.Helper()
	program, release, err := bpf.WithTunnelKey(next, vni, node)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(release)
	return program
}
