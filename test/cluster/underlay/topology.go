// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package underlay is the physical network of a lab: a switch, the host and
// the nodes on it, each in a network namespace of its own.
//
// The switch is a bridge in a namespace of its own as well, so that firewall rules of the host (a
// container engine's, say) cannot touch packets between nodes. The host is a member of that network
// like any other, under the interface named after the lab.
package underlay

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
)

// Topology fixes every name and address of one lab.
type Topology struct {
	// Lab prefixes the name of everything on the host: at most 9 characters,
	// so that "<Lab>-lab0" is a legal interface name.
	Lab string `json:"lab"`
	// Nodes is the number of nodes, 1 to 100.
	Nodes int `json:"nodes"`
	// Octet is the third byte of the IPv4 network 192.168.<Octet>.0/24 and,
	// read as hexadecimal digits, the second byte of fd<Octet>::/64.
	Octet int `json:"octet"`
	// Guests is how many of the nodes, the last ones, are virtual machines. With any,
	// every node has an interface on a second segment, under the name SecondLink.
	Guests int `json:"guests,omitempty"`
}

// LabVariable names the environment variable with the number of a lab, 1 to 9, that has
// names and addresses of its own. Each clone of the repository has one folder for a lab, so
// labs of several clones can be up at once.
const LabVariable = "ALIOTH_LAB"

// DefaultTopology returns the topology of the lab of `make up` with n nodes. A wrong number
// in LabVariable makes it invalid.
func DefaultTopology(n int) Topology { return numberedTopology(os.Getenv(LabVariable), n) }

// numberedTopology returns the topology of the lab with a number. The lab without a number
// has the network 77, the others 81 to 89.
func numberedTopology(number string, n int) Topology {
	t := Topology{Lab: "alioth" + number, Nodes: n, Octet: 77}
	if number == "" {
		return t
	}
	t.Octet = 0
	if value, err := strconv.ParseUint(number, 10, 8); err == nil && value >= 1 && value <= 9 {
		t.Octet = 80 + int(value)
	}
	return t
}

// hostIndex is the host part of the host's own addresses; 0xfe in IPv6.
const hostIndex = 254

// spareIndex added to a node's number is the host part of its spare address.
const spareIndex = 100

// SecondLink is the name of a node's interface on the second segment, which has no
// addresses. On a virtual machine it is a network adapter with virtual functions.
const SecondLink = "hw0"

// cablesOfGuest is how many cables a virtual machine has: enough for a bond.
const cablesOfGuest = 2

// Validate returns an error for the first rule that t breaks.
func (t Topology) Validate() error {
	switch {
	case t.Lab == "" || len(t.Lab) > 9:
		return fmt.Errorf("lab name %q: use 1 to 9 characters", t.Lab)
	case t.Nodes < 1 || t.Nodes > 100:
		return fmt.Errorf("%d nodes: use 1 to 100", t.Nodes)
	case t.Octet < 1 || t.Octet > 99:
		return fmt.Errorf(
			"network number %d of the lab %q: use 1 to 99, and a number of 1 to 9 in %s",
			t.Octet,
			t.Lab,
			LabVariable,
		)
	case t.Guests < 0 || t.Guests >= t.Nodes:
		return fmt.Errorf(
			"%d virtual machines of %d nodes: use fewer than nodes, the first runs the control plane",
			t.Guests,
			t.Nodes,
		)
	}
	return nil
}

// Node returns the name of node i, counted from 1. Its network namespace has
// the same name.
func (t Topology) Node(i int) string { return fmt.Sprintf("%s-node%d", t.Lab, i) }

// NodeNames returns the names of all nodes in order.
func (t Topology) NodeNames() []string {
	names := make([]string, 0, t.Nodes)
	for i := 1; i <= t.Nodes; i++ {
		names = append(names, t.Node(i))
	}
	return names
}

// NodeIndex returns the number of a node by its name, or 0.
func (t Topology) NodeIndex(name string) int {
	for i := 1; i <= t.Nodes; i++ {
		if t.Node(i) == name {
			return i
		}
	}
	return 0
}

// IsGuest reports whether node i, counted from 1, is a virtual machine.
func (t Topology) IsGuest(i int) bool { return i > t.Nodes-t.Guests && i <= t.Nodes }

// MACs returns the MAC addresses of the interfaces of virtual machine i: first the interface with
// the node's addresses, then the interface on the second segment.
func (t Topology) MACs(i int) (first, second net.HardwareAddr) {
	mac := func(segment byte) net.HardwareAddr {
		return net.HardwareAddr{0x02, 0xa1, byte(t.Octet), byte(i), 0, segment}
	}
	return mac(1), mac(2)
}

// Link is an interface of a virtual machine.
type Link struct {
	Name string
	MAC  net.HardwareAddr
}

// Cable joins two interfaces of one virtual machine, and leads nowhere else.
type Cable struct{ Near, Far Link }

// Cables returns the cables of virtual machine i: eth1 with far1, and eth2 with far2. All these
// interfaces are down and without addresses. A test that moves far1 and far2 into a network
// namespace has the other ends of eth1 and eth2 there.
func (t Topology) Cables(i int) (cables []Cable) {
	link := func(name string, n, end byte) Link {
		return Link{Name: fmt.Sprintf("%s%d", name, n), MAC: net.HardwareAddr{0x02, 0xa1, byte(t.Octet), byte(i), n, end}}
	}
	for n := range byte(cablesOfGuest) {
		cables = append(cables, Cable{Near: link("eth", n+1, 1), Far: link("far", n+1, 2)})
	}
	return cables
}

// Taps returns the names of the switch's ports for virtual machine i. The machine is to be
// connected to them from within the switch's namespace.
func (t Topology) Taps(i int) (first, second string) { return t.port(i), t.secondPort(i) }

// Switch returns the name of the network namespace that holds the bridge.
func (t Topology) Switch() string { return t.Lab + "-switch" }

// hostMAC returns the MAC address of a host with a name and addresses.
func (t Topology) hostMAC(name string, ips []netip.Addr) net.HardwareAddr {
	sum := sha256.Sum256(fmt.Append(nil, name, ips))
	return net.HardwareAddr{0x02, 0xa2, byte(t.Octet), sum[0], sum[1], sum[2]}
}

// HostLink returns the name of the host's interface in the lab's network.
func (t Topology) HostLink() string { return t.Lab + "-lab0" }

// HostPrefix starts the name of the namespace of each additional host.
func (t Topology) HostPrefix() string { return t.Lab + "-host-" }

// NodeIPs returns the IPv4 and the IPv6 address of node i, counted from 1.
func (t Topology) NodeIPs(i int) (v4, v6 netip.Addr) {
	return t.address(i, fmt.Sprintf("%d", i))
}

// SpareIP returns an unused IPv4 address: another one for node i.
func (t Topology) SpareIP(i int) netip.Addr {
	spare, _ := t.address(spareIndex+i, "0")
	return spare
}

// HostIPs returns the host's own addresses in the lab's network, which are the
// nodes' default gateways.
func (t Topology) HostIPs() (v4, v6 netip.Addr) {
	return t.address(hostIndex, fmt.Sprintf("%x", hostIndex))
}

func (t Topology) address(host4 int, host6 string) (v4, v6 netip.Addr) {
	v4 = netip.AddrFrom4([4]byte{192, 168, byte(t.Octet), byte(host4)})
	v6 = netip.MustParseAddr(fmt.Sprintf("fd%02d::%s", t.Octet, host6))
	return v4, v6
}

// Networks returns the lab's IPv4 and IPv6 network.
func (t Topology) Networks() (v4, v6 netip.Prefix) {
	h4, h6 := t.HostIPs()
	return netip.PrefixFrom(h4, 24).Masked(), netip.PrefixFrom(h6, 64).Masked()
}

// onLink returns addr as an interface address of the lab's network.
func (t Topology) onLink(addr netip.Addr) *net.IPNet {
	bits, length := 24, 32
	if addr.Is6() {
		bits, length = 64, 128
	}
	return &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, length)}
}
