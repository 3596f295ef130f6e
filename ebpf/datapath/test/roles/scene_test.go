// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// The nodes of a scene.
const (
	client = iota // has pod 10.0.1.10
	server        // has pod 10.0.1.20
	bouncer1
	bouncer2
	divider
	sceneNodes
)

// scene is a VPC with pods on two nodes, whose complete tables others have.
type scene struct {
	*lab.Lab
	a, b *lab.Pod
	// family is the family of the underlay: 0 for IPv4, 1 for IPv6.
	family int
}

// newScene builds one with bouncers, and with a divider if divided.
func newScene(t *testing.T, family int, divided bool) *scene {
	t.Helper()
	s := &scene{Lab: lab.Bridged(t, sceneNodes), family: family}
	s.a, s.b = s.Pod(client, 10), s.Pod(server, 20)
	for i, n := range s.Nodes {
		n.State.VPCs = []state.VPC{{VNI: lab.VNI1, Prefixes: []netip.Prefix{wire.Prefix("10.0.0.0/16"), wire.Prefix("fd10::/48")}}}
		n.State.Own, n.State.Nodes = n.Underlay[:], nil
		for _, other := range s.Nodes {
			n.State.Nodes = append(n.State.Nodes, other.Underlay[:]...)
		}
		s.play(i, divided)
		if i == client || i == server || divided && i == divider {
			s.dropRemote(i)
		}
		for _, gateway := range []string{"10.0.1.1", "fd10:0:0:1::1"} {
			n.State.Addresses = append(n.State.Addresses, state.Address{VNI: lab.VNI1, IP: wire.IP(gateway), Kind: state.Gateway})
		}
	}
	s.ApplyEach()
	return s
}

// node returns the address of a node on the underlay.
func (s *scene) node(i int) netip.Addr { return s.Nodes[i].Underlay[s.family] }

// play gives a node its roles and subnets.
func (s *scene) play(i int, divided bool) {
	st := &s.Nodes[i].State
	bouncers := state.Role{Key: state.RoleKey{VNI: lab.VNI1, ID: bouncerRole}, Here: i == bouncer1 || i == bouncer2, Complete: true}
	for _, member := range []int{bouncer1, bouncer2} {
		if i != member {
			bouncers.Members = append(bouncers.Members, s.node(member))
		}
	}
	if divided {
		dividers := state.Role{Key: state.RoleKey{VNI: lab.VNI1, ID: dividerRole}, Here: i == divider, Complete: true}
		if i != divider {
			dividers.Members = []netip.Addr{s.node(divider)}
		}
		st.Roles, st.VPCs[0].Role = append(st.Roles, dividers), dividerRole
		if i == client || i == server {
			return // neither knows the subnet
		}
	}
	st.Roles = append(st.Roles, bouncers)
	for _, prefix := range []string{"10.0.1.0/24", "fd10:0:0:1::/64"} {
		st.Subnets = append(st.Subnets, state.Subnet{VNI: lab.VNI1, Prefix: wire.Prefix(prefix), Role: bouncerRole})
	}
}

// identify has the interfaces of these nodes send identities, and no others.
func (s *scene) identify(nodes ...int) {
	for i, n := range s.Nodes {
		for j := range n.State.Interfaces {
			n.State.Interfaces[j].Identity, n.State.Interfaces[j].SendsIdentity = 0x010203, slices.Contains(nodes, i)
		}
	}
	s.ApplyEach()
}

// dropRemote takes the complete table from a node.
func (s *scene) dropRemote(i int) {
	st := &s.Nodes[i].State
	st.Addresses = slices.DeleteFunc(st.Addresses, func(a state.Address) bool { return a.Kind == state.Remote })
}

// cache gives a node a cached row that leads to another node.
func (s *scene) cache(t *testing.T, on int, ip netip.Addr, to int) {
	t.Helper()
	bpftest.Must(t, s.Nodes[on].Datapath.Cached().Put(state.Cached{VNI: lab.VNI1, IP: ip, Node: s.node(to), MAC: state.MAC{2, 0, 10, 0, 1, 20}}))
}

// tap sees all packets of the tunnel on the underlay.
type tap struct{ fd int }

// watch begins to see packets, from now on.
func watch(t *testing.T) tap {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK, int(htons(unix.ETH_P_ALL)))
	bpftest.Must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	bpftest.Must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20))
	return tap{fd}
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// hops returns the packets between nodes since the last call, each as "from>to class".
func (c tap) hops(t *testing.T) (list []string) {
	t.Helper()
	buf := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(c.fd, buf, 0)
		if err == unix.EAGAIN {
			return list
		}
		bpftest.Must(t, err)
		link, ok := from.(*unix.SockaddrLinklayer)
		if !ok || link.Pkttype == unix.PACKET_OUTGOING || !isPort(t, link.Ifindex) {
			continue
		}
		if hop, ok := readHop(buf[:n]); ok {
			list = append(list, hop)
		}
	}
}

// isPort reports whether a device is a port of the bridge.
func isPort(t *testing.T, ifindex int) bool {
	t.Helper()
	link, err := netlink.LinkByIndex(ifindex)
	bpftest.Must(t, err)
	return link.Attrs().MasterIndex != 0
}

// readHop reads a packet of the tunnel, over either family.
func readHop(b []byte) (string, bool) {
	udp, from, to := 14+20, 29, 33 // the last bytes of the addresses
	if b[14]>>4 == 6 {
		udp, from, to = 14+40, 37, 53
	}
	if len(b) < udp+8+8+14 || binary.BigEndian.Uint16(b[udp+2:]) != programs.DefaultTunnelPort {
		return "", false
	}
	return fmt.Sprintf("%d>%d %d", b[from]-1, b[to]-1, b[udp+8+8+11]), true
}

// setDown cuts a node off.
func setDown(t *testing.T, node int) {
	t.Helper()
	link, err := netlink.LinkByName(lab.PortName(node))
	bpftest.Must(t, err)
	bpftest.Must(t, netlink.LinkSetDown(link))
}

// cutInTransit lets the packets of an IPv4 socket be fragmented on the path.
func cutInTransit(fd int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
}
