// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package underlay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/process"
)

const (
	bridgeName = "br0"
	// secondBridge is the second segment.
	secondBridge = "br1"
	// nodeLink is the name of a member's interface inside its namespace.
	nodeLink = "eth0"
	mtu      = 1500
)

// Up makes the switch, the host's link to it and every node's namespace and link. It keeps the ones
// that exist already. With forwarding, nodes route packets from the start; otherwise the software
// installed on the nodes decides that.
func (t Topology) Up(forwarding bool) error {
	if err := t.createSwitch(); err != nil {
		return err
	}
	host4, host6 := t.HostIPs()
	err := t.attach(member{port: "host", link: t.HostLink(), ips: []netip.Addr{host4, host6}})
	if err != nil {
		return err
	}
	for i := 1; i <= t.Nodes; i++ {
		if err := t.ConnectNode(i, forwarding); err != nil {
			return err
		}
	}
	return nil
}

// ConnectNode makes the namespace and the links of node i, counted from 1; see
// Up. Of a virtual machine it makes the switch's ports.
func (t Topology) ConnectNode(i int, forwarding bool) error {
	if t.IsGuest(i) {
		return t.makeTaps(i)
	}
	if err := t.attach(t.member(i, forwarding)); err != nil || t.Guests == 0 {
		return err
	}
	return t.attach(
		member{port: t.secondPort(i), segment: secondBridge, link: SecondLink, ns: t.Node(i), forwarding: forwarding},
	)
}

// member is node i on the first segment.
func (t Topology) member(i int, forwarding bool) member {
	v4, v6 := t.NodeIPs(i)
	host4, host6 := t.HostIPs()
	return member{
		port: t.port(i), link: nodeLink, ns: t.Node(i), ips: []netip.Addr{v4, v6},
		gateways: []netip.Addr{host4, host6}, forwarding: forwarding,
	}
}

// ConfigureGuest runs in virtual machine i. It finds the machine's interfaces by their MAC
// addresses, names them, and gives them the same settings as ConnectNode gives a node's.
func (t Topology) ConfigureGuest(i int) error {
	first, second := t.MACs(i)
	links := []Link{{nodeLink, first}, {SecondLink, second}}
	for _, cable := range t.Cables(i) {
		links = append(links, cable.Near, cable.Far)
	}
	if err := nameLinks(links); err != nil {
		return err
	}
	if err := t.configure(t.member(i, false)); err != nil {
		return err
	}
	return setUp(SecondLink)
}

// nameLinks names interfaces. The kernel may have given an interface the name of another one. So
// all interfaces first get a name that the kernel never gives.
func nameLinks(links []Link) error {
	between := func(n int) string { return fmt.Sprintf("unnamed%d", n) }
	for n, link := range links {
		if err := rename(link.MAC, between(n)); err != nil {
			return err
		}
	}
	for _, link := range links {
		if err := rename(link.MAC, link.Name); err != nil {
			return err
		}
	}
	return nil
}

// rename gives the interface with a MAC address another name.
func rename(mac net.HardwareAddr, name string) error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	for _, link := range links {
		if bytes.Equal(link.Attrs().HardwareAddr, mac) {
			if err := netlink.LinkSetName(link, name); err != nil {
				return fmt.Errorf("name the interface %s: %w", name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("find the interface for %s: none has the MAC address %s", name, mac)
}

// makeTaps makes the ports of virtual machine i. They stay when the machine ends.
func (t Topology) makeTaps(i int) error {
	first, second := t.Taps(i)
	return inNS(t.Switch(), func() error {
		for port, segment := range map[string]string{first: bridgeName, second: secondBridge} {
			if err := makeTap(port, segment); err != nil {
				return fmt.Errorf("make the port %s: %w", port, err)
			}
		}
		return nil
	})
}

func makeTap(port, segment string) error {
	bridge, err := netlink.LinkByName(segment)
	if err != nil {
		return fmt.Errorf("find the switch: %w", err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = port
	tap := &netlink.Tuntap{
		LinkAttrs: attrs,
		Mode:      netlink.TUNTAP_MODE_TAP,
		Flags:     netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR,
	}
	// An existing one of the same kind is opened.
	if err := netlink.LinkAdd(tap); err != nil && !errors.Is(err, unix.EBUSY) {
		return err
	}
	link, err := netlink.LinkByName(port)
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetMTU(link, mtu), netlink.LinkSetMaster(link, bridge), netlink.LinkSetUp(link))
}

// DisconnectNode removes the links that ConnectNode made. Other links in the namespace end with it,
// once its last process has.
func (t Topology) DisconnectNode(i int) error {
	err := inNS(t.Switch(), func() error { return errors.Join(deleteLink(t.port(i)), deleteLink(t.secondPort(i))) })
	return errors.Join(err, deleteNS(t.Node(i)))
}

// Down removes every link and namespace of the lab, whatever is left of it.
func (t Topology) Down() error {
	names, err := t.Namespaces()
	if err != nil {
		return err
	}
	errs := []error{deleteHostLink(t.HostLink())}
	for _, name := range names {
		errs = append(errs, deleteNS(name))
	}
	return errors.Join(errs...)
}

// AddHost makes a member of the lab's network outside of the cluster, with its addresses and
// without routes beyond the network, and returns its namespace. A host that is made again has the
// MAC address that its neighbours still remember.
func (t Topology) AddHost(name string, ips ...netip.Addr) (ns string, err error) {
	m := member{port: name, link: nodeLink, ns: t.HostPrefix() + name, ips: ips, mac: t.hostMAC(name, ips)}
	if len(m.port) > unix.IFNAMSIZ-1 {
		return "", fmt.Errorf("name a host %q: use at most %d characters", name, unix.IFNAMSIZ-1)
	}
	return m.ns, t.attach(m)
}

// RemoveHost removes the links that AddHost made. Its interfaces vanish at once, even while a
// process still runs in the namespace.
func (t Topology) RemoveHost(name string) error {
	err := inNS(t.Switch(), func() error { return deleteLink(name) })
	return errors.Join(err, deleteNS(t.HostPrefix()+name))
}

// SetLink cuts (up = false) or restores the cable between node i, counted from
// 1, and the switch. The node's interface loses its carrier, not its state.
func (t Topology) SetLink(i int, up bool) error {
	return inNS(t.Switch(), func() error {
		link, err := netlink.LinkByName(t.port(i))
		if err != nil {
			return fmt.Errorf("find the switch port of node %d: %w", i, err)
		}
		if up {
			return netlink.LinkSetUp(link)
		}
		return netlink.LinkSetDown(link)
	})
}

// port names the switch's end of node i's cable.
func (t Topology) port(i int) string { return fmt.Sprintf("node%d", i) }

// secondPort names that on the second segment.
func (t Topology) secondPort(i int) string { return fmt.Sprintf("node%dhw", i) }

// member is one end system of the lab's network.
type member struct {
	port       string           // its end in the switch's namespace
	segment    string           // its bridge there; "" is the first
	link       string           // its own interface
	ns         string           // its namespace; "" is the host's
	mac        net.HardwareAddr // nil: the kernel chooses
	ips        []netip.Addr
	gateways   []netip.Addr
	forwarding bool
}

func (t Topology) createSwitch() error {
	if err := createNS(t.Switch()); err != nil {
		return err
	}
	return inNS(t.Switch(), func() error {
		if err := setUp("lo"); err != nil {
			return err
		}
		// Bridged packets are the lab's cables: no netfilter on the way.
		for _, name := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables", "bridge-nf-call-arptables"} {
			// The settings exist only where the br_netfilter module is there.
			_ = setSysctl("bridge/"+name, "0")
		}
		if t.Guests > 0 {
			if err := makeBridge(secondBridge); err != nil {
				return err
			}
		}
		return makeBridge(bridgeName)
	})
}

func makeBridge(name string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, mtu
	off := false
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &off}
	if err := netlink.LinkAdd(bridge); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make the switch: %w", err)
	}
	return setUp(name)
}

// attach makes a member's namespace and its cable to the switch.
func (t Topology) attach(m member) error {
	if m.ns != "" {
		if err := createNS(m.ns); err != nil {
			return err
		}
	}
	if err := t.cable(m); err != nil {
		return fmt.Errorf("connect %s to the switch: %w", m.port, err)
	}
	return inNS(m.ns, func() error {
		if err := t.configure(m); err != nil {
			return fmt.Errorf("configure %s: %w", m.port, err)
		}
		return nil
	})
}

// cable makes the veth pair of m from within the switch's namespace, so that
// neither end ever shows up elsewhere, not even under another name.
func (t Topology) cable(m member) error {
	peer, err := openNS(m.ns)
	if err != nil {
		return err
	}
	defer peer.Close()
	return inNS(t.Switch(), func() error {
		bridge, err := netlink.LinkByName(cmp.Or(m.segment, bridgeName))
		if err != nil {
			return fmt.Errorf("find the switch: %w", err)
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.MasterIndex = m.port, mtu, bridge.Attrs().Index
		veth := &netlink.Veth{
			LinkAttrs:        attrs,
			PeerName:         m.link,
			PeerMTU:          mtu,
			PeerHardwareAddr: m.mac,
			PeerNamespace:    netlink.NsFd(int(peer)),
		}
		if err := netlink.LinkAdd(veth); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make a cable: %w", err)
		}
		return setUp(m.port)
	})
}

// configure brings m's interface up with its addresses and routes.
func (t Topology) configure(m member) error {
	if m.ns != "" {
		if err := isolateNS(m.forwarding); err != nil {
			return err
		}
		if err := setUp("lo"); err != nil {
			return err
		}
	}
	link, err := netlink.LinkByName(m.link)
	if err != nil {
		return fmt.Errorf("find the interface %s: %w", m.link, err)
	}
	// Without duplicate address detection an address works at once.
	if err := setSysctl("ipv6/conf/"+m.link+"/accept_dad", "0"); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring %s up: %w", m.link, err)
	}
	for _, ip := range m.ips {
		// Even without duplicate address detection a worker of the kernel ends the
		// tentative state, and a busy one is late. With the flag an address is never
		// tentative.
		addr := &netlink.Addr{IPNet: t.onLink(ip)}
		if ip.Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrReplace(link, addr); err != nil {
			return fmt.Errorf("add the address %s: %w", ip, err)
		}
	}
	for _, gateway := range m.gateways {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: defaultRoute(gateway), Gw: gateway.AsSlice()}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("add the default route by %s: %w", gateway, err)
		}
	}
	return nil
}

// isolateNS sets the values that a fresh namespace would otherwise inherit from the host.
func isolateNS(forwarding bool) error {
	value := "0"
	if forwarding {
		value = "1"
	}
	for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		if err := setSysctl(name, value); err != nil {
			return err
		}
	}
	return setSysctl("ipv6/conf/default/accept_dad", "0")
}

func defaultRoute(gateway netip.Addr) *net.IPNet {
	if gateway.Is4() {
		return &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
	}
	return &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
}

func setUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find the interface %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring %s up: %w", name, err)
	}
	return nil
}

func deleteLink(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the interface %s: %w", name, err)
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("remove the interface %s: %w", name, err)
	}
	return nil
}

func deleteHostLink(name string) error { return inNS("", func() error { return deleteLink(name) }) }

// openNS returns a handle of a named namespace; "" is the caller's own.
func openNS(name string) (netns.NsHandle, error) {
	if name == "" {
		return netns.Get()
	}
	handle, err := netns.GetFromName(name)
	if err != nil {
		return handle, fmt.Errorf("open the network namespace %s: %w", name, err)
	}
	return handle, nil
}

// inNS runs fn on a thread in a named namespace; "" is the caller's own.
func inNS(name string, fn func() error) error {
	return process.OnThread(func() error {
		if name != "" {
			if err := (process.Space{Net: NetNSPath(name)}).Enter(); err != nil {
				return err
			}
		}
		return fn()
	})
}
