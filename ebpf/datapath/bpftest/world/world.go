// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// Shadow addresses of pod A, of the pod whose VPC may leave, and of the node; a host outside.
const (
	ShadowA     = "169.254.64.10"
	ShadowA6    = "fd00:a110::10"
	ShadowOpen  = "169.254.64.13"
	ShadowOpen6 = "fd00:a110::13"
	NodeShadow  = "169.254.64.1"
	NodeShadow6 = "fd00:a110::1"
	Outside     = "198.51.100.1"
	Outside6    = "2606:4700::1"
)

// Addresses of pods A, B and a remote one, of the node's interface, and of all stations.
var (
	MacA    = state.MAC{0x02, 0, 0, 0, 0, 0xaa}
	MacB    = state.MAC{0x02, 0, 0, 0, 0, 0xbb}
	MacR    = state.MAC{0x02, 0, 0, 0, 0, 0xcc}
	MacNode = state.MAC{0x02, 0, 0, 0, 0, 0xdd}
	Bcast   = state.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
)

// The VPCs of a world.
const (
	VNIRed  = 100 // two pods, egress closed
	VNIBlue = 200 // one pod with the same addresses as a red pod, reached from outside
	VNIOpen = 300 // egress open
	VNIMain = 400 // the default VPC
)

// World is the state that the verdict tests run against.
type World struct {
	*bpftest.Datapath
	NS                                 netns.NsHandle
	PodA, PodB, Twin, Open, Main, Node int
	// asked is a trial of its programs.
	asked *trial.Trial
}

// New makes a world with its datapath open, whose configuration may be
// adapted from inside the world's namespace.
func New(t testing.TB, adapt ...func(*programs.Config)) *World {
	t.Helper()
	ns := bpftest.InNamespace(t)
	w := &World{
		NS: ns,
		PodA: bpftest.AddPair(
			t,
			"pod-a",
			"pod-a-peer",
		), PodB: bpftest.AddPair(t, "pod-b", "pod-b-peer"), Twin: bpftest.AddPair(t, "twin", "twin-peer"),
		Open: bpftest.AddPair(
			t,
			"open",
			"open-peer",
		), Main: bpftest.AddPair(t, "main", "main-peer"), Node: bpftest.AddPair(t, "node", "node-peer"),
	}
	cfg := programs.Config{
		PinDir: bpftest.MountBPF(t), CgroupRoot: bpftest.ChildCgroup(t), VXLANIfindex: bpftest.AddTunnel(t, "tunnel"),
		NodeShadow4: wire.IP(
			"169.254.64.1",
		), NodeShadow6: wire.IP("fd00:a110::1"), ConnectionsPerInterface: 2, Connections: bpftest.Connections,
	}
	cfg.FragmentIfindex, cfg.FragmentPeerIfindex = bpftest.AddFragmenter(t)
	for _, f := range adapt {
		f(&cfg)
	}
	w.Datapath = bpftest.OpenShared(t, cfg)
	if err := w.Apply(w.State()); err != nil {
		t.Fatalf("apply: %v", err)
	}
	return w
}

// State returns the state that New has applied.
func (w *World) State() state.State {
	return state.State{
		VPCs: []state.VPC{
			{VNI: VNIRed, Prefixes: []netip.Prefix{wire.Prefix("10.0.0.0/16"), wire.Prefix("fd10::/48")}},
			{VNI: VNIBlue, Prefixes: []netip.Prefix{wire.Prefix("10.0.0.0/16"), wire.Prefix("fd10::/48")}, Fronted: true},
			{
				VNI:              VNIOpen,
				Prefixes:         []netip.Prefix{wire.Prefix("10.0.0.0/16"), wire.Prefix("fd10::/48")},
				EgressMasquerade: true,
			},
			{
				VNI:              VNIMain,
				Prefixes:         []netip.Prefix{wire.Prefix("10.8.0.0/16"), wire.Prefix("fd18::/48")},
				EgressMasquerade: true,
				Default:          true,
			},
		},
		Subnets: []state.Subnet{
			{VNI: VNIRed, Prefix: wire.Prefix("10.0.1.0/24")},
			{VNI: VNIRed, Prefix: wire.Prefix("fd10:0:0:1::/64")},
			{VNI: VNIMain, Prefix: wire.Prefix("10.8.1.0/24")},
			{VNI: VNIMain, Prefix: wire.Prefix("fd18:0:0:1::/64")},
		},
		Interfaces: []state.Interface{
			{
				Ifindex: w.PodA, VNI: VNIRed, MAC: MacA, Addrs: []netip.Addr{wire.IP("10.0.1.10"), wire.IP("fd10:0:0:1::10")},
				Shadow4: wire.IP(
					"169.254.64.10",
				), Shadow6: wire.IP("fd00:a110::10"), Gateway4: wire.IP("10.0.1.1"), Gateway6: wire.IP("fd10:0:0:1::1"),
			},
			{
				Ifindex: w.PodB, VNI: VNIRed, MAC: MacB, Addrs: []netip.Addr{wire.IP("10.0.1.11"), wire.IP("fd10:0:0:1::11")},
				Shadow4: wire.IP("169.254.64.11"), Shadow6: wire.IP("fd00:a110::11"),
			},
			{
				Ifindex: w.Twin, VNI: VNIBlue, MAC: MacA, Addrs: []netip.Addr{wire.IP("10.0.1.10"), wire.IP("fd10:0:0:1::10")},
				Shadow4: wire.IP("169.254.64.12"), Shadow6: wire.IP("fd00:a110::12"),
			},
			{
				Ifindex: w.Open, VNI: VNIOpen, MAC: MacA, Addrs: []netip.Addr{wire.IP("10.0.1.10"), wire.IP("fd10:0:0:1::10")},
				Shadow4: wire.IP("169.254.64.13"), Shadow6: wire.IP("fd00:a110::13"),
			},
			{
				Ifindex: w.Main, VNI: VNIMain, MAC: MacA, Addrs: []netip.Addr{wire.IP("10.8.1.10"), wire.IP("fd18:0:0:1::10")},
				Shadow4: wire.IP("169.254.64.14"), Shadow6: wire.IP("fd00:a110::14"),
			},
			{
				Ifindex: w.Node,
				VNI:     VNIMain,
				MAC:     MacNode,
				Addrs:   []netip.Addr{wire.IP("10.8.1.2"), wire.IP("fd18:0:0:1::2")},
				Node:    true,
			},
		},
		Addresses: []state.Address{
			{VNI: VNIRed, IP: wire.IP("10.0.1.10"), Kind: state.Local, Ifindex: w.PodA, MAC: MacA},
			{VNI: VNIRed, IP: wire.IP("fd10:0:0:1::10"), Kind: state.Local, Ifindex: w.PodA, MAC: MacA},
			{VNI: VNIRed, IP: wire.IP("10.0.1.11"), Kind: state.Local, Ifindex: w.PodB, MAC: MacB},
			{VNI: VNIRed, IP: wire.IP("fd10:0:0:1::11"), Kind: state.Local, Ifindex: w.PodB, MAC: MacB},
			{VNI: VNIRed, IP: wire.IP("10.0.1.20"), Kind: state.Remote, Node: wire.IP("192.0.2.2"), MAC: MacR},
			{VNI: VNIRed, IP: wire.IP("fd10:0:0:1::20"), Kind: state.Remote, Node: wire.IP("2001:db8::2"), MAC: MacR},
			{VNI: VNIRed, IP: wire.IP("10.0.1.1"), Kind: state.Gateway},
			{VNI: VNIRed, IP: wire.IP("fd10:0:0:1::1"), Kind: state.Gateway},
			{VNI: VNIRed, IP: wire.IP("10.0.1.66"), Kind: state.HeldOutside},
			{VNI: VNIRed, IP: wire.IP("fd10:0:0:1::66"), Kind: state.HeldOutside},
			{VNI: VNIBlue, IP: wire.IP("10.0.1.10"), Kind: state.Local, Ifindex: w.Twin, MAC: MacA},
			{VNI: VNIMain, IP: wire.IP("10.8.1.10"), Kind: state.Local, Ifindex: w.Main, MAC: MacA},
			{VNI: VNIMain, IP: wire.IP("fd18:0:0:1::10"), Kind: state.Local, Ifindex: w.Main, MAC: MacA},
			{VNI: VNIMain, IP: wire.IP("10.8.1.2"), Kind: state.Local, Ifindex: w.Node, MAC: MacNode},
			{VNI: VNIMain, IP: wire.IP("fd18:0:0:1::2"), Kind: state.Local, Ifindex: w.Node, MAC: MacNode},
		},
		Nodes: []netip.Addr{wire.IP("192.0.2.1"), wire.IP("192.0.2.2"), wire.IP("2001:db8::2")},
		NodePorts: []state.NodePort{
			{VNI: VNIOpen, Proto: state.ProtoTCP, Port: 30080, Family: ipfamily.IPv4},
			{VNI: VNIOpen, Proto: state.ProtoUDP, Port: 30053, Family: ipfamily.IPv4},
			{VNI: VNIOpen, Proto: state.ProtoTCP, Port: 30080, Family: ipfamily.IPv6},
			{VNI: VNIRed, Proto: state.ProtoTCP, Port: 30081, Family: ipfamily.IPv4},
			{VNI: VNIRed, Proto: state.ProtoTCP, Port: 30081, Family: ipfamily.IPv6},
		},
		Closed: []state.ClosedPrefix{
			{VNI: 0, Prefix: wire.Prefix("169.254.64.0/18"), Class: state.ClosedShadow},
			{VNI: 0, Prefix: wire.Prefix("fd00:a110::/64"), Class: state.ClosedShadow},
			{VNI: 0, Prefix: wire.Prefix("192.0.2.1/32"), Class: state.ClosedNode},
			{VNI: 0, Prefix: wire.Prefix("2001:db8::2/128"), Class: state.ClosedNode},
			{VNI: 0, Prefix: wire.Prefix("192.0.2.100/32"), Class: state.ClosedBalancer},
			{VNI: 0, Prefix: wire.Prefix("10.8.0.0/16"), Class: state.ClosedDefaultVPC},
			{VNI: 0, Prefix: wire.Prefix("fd18::/48"), Class: state.ClosedDefaultVPC},
			{VNI: 0, Prefix: wire.Prefix("10.96.0.0/16"), Class: state.ClosedService},
			{VNI: 0, Prefix: wire.Prefix("fd96::/108"), Class: state.ClosedService},
			{VNI: 0, Prefix: wire.Prefix("169.254.0.0/16"), Class: state.ClosedLinkLocal},
			{VNI: 0, Prefix: wire.Prefix("fe80::/10"), Class: state.ClosedLinkLocal},
			{VNI: 0, Prefix: wire.Prefix("224.0.0.0/3"), Class: state.ClosedMulticast},
			{VNI: 0, Prefix: wire.Prefix("ff00::/8"), Class: state.ClosedMulticast},
			{VNI: VNIOpen, Prefix: wire.Prefix("203.0.113.0/24"), Class: state.ClosedDenied},
			{VNI: VNIOpen, Prefix: wire.Prefix("2001:db8:dead::/48"), Class: state.ClosedDenied},
		},
		Services: []state.Service{
			{
				VIP:      wire.IP("10.96.0.10"),
				Port:     53,
				Proto:    state.ProtoUDP,
				Backends: []state.Backend{{IP: wire.IP("10.8.1.10"), Port: 5353}},
			},
			{
				VIP:      wire.IP("10.96.0.10"),
				Port:     53,
				Proto:    state.ProtoTCP,
				Backends: []state.Backend{{IP: wire.IP("10.8.1.10"), Port: 5353}},
			},
			{
				VIP:      wire.IP("10.96.0.1"),
				Port:     443,
				Proto:    state.ProtoTCP,
				Backends: []state.Backend{{IP: wire.IP("192.0.2.1"), Port: 6443}},
			},
			{
				VIP:      wire.IP("10.96.0.2"),
				Port:     443,
				Proto:    state.ProtoTCP,
				Backends: []state.Backend{{IP: wire.IP("192.0.2.1"), Port: 6443}},
			},
			{VIP: wire.IP("10.96.0.1"), Port: 444, Proto: state.ProtoTCP},
			{
				VIP:      wire.IP("fd96::10"),
				Port:     53,
				Proto:    state.ProtoUDP,
				Backends: []state.Backend{{IP: wire.IP("fd18:0:0:1::10"), Port: 5353}},
			},
		},
	}
}

// Device returns the index of the device of a program of the node.
func (w *World) Device(p hook.Program) int {
	return map[hook.Program]int{
		hook.FromTunnel: w.Config.VXLANIfindex, hook.FromUnderlay: w.Config.Uplink(), hook.ToUnderlay: w.Config.Uplink(),
		hook.Fragment: w.Config.FragmentPeerIfindex,
	}[p]
}
