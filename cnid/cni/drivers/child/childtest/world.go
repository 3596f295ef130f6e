// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package childtest has a node and pods for tests of drivers of derived interfaces, on the
// real kernel: namespaces of their own.
package childtest

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/drivers/child"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

// Node is a namespace that plays the node's, with a driver for it. Its devices lead to
// routers.
type Node struct {
	*netnstest.Namespace
	Driver ifdriver.Driver
	// Dir has the driver's notes.
	Dir string
	// Underlay is the underlay that the driver knows; a test may change it.
	Underlay *ifdriver.Underlay
	devices  child.Devices
}

// NewNode returns a node with a driver for such interfaces and a device eth0, which has the name of
// a pod's interface too, and the router that is at its other end.
func NewNode(t testing.TB, devices child.Devices) (Node, Router) {
	t.Helper()
	n := Node{Namespace: netnstest.New(t), Dir: t.TempDir(), Underlay: &ifdriver.Underlay{}, devices: devices}
	n.Start(t)
	return n, n.AddDevice(t, "eth0", "192.0.2.1/24", "2001:db8::1/64")
}

// Start opens a driver, as a daemon does that starts.
func (n *Node) Start(t testing.TB) {
	t.Helper()
	n.Do(t, func() (err error) {
		n.Driver, err = n.devices.Type().Open(ifdriver.Node{Dir: n.Dir, Place: place{n.Underlay}})
		return err
	})
	t.Cleanup(n.Driver.Close)
}

// Router is at the other end of a device of the node.
type Router struct{ *netnstest.Namespace }

// AddDevice gives the node a device, and returns the router at its other end, which has
// these addresses there.
func (n *Node) AddDevice(t testing.TB, name string, addrs ...string) Router {
	t.Helper()
	r := Router{netnstest.New(t)}
	Wire(t, n.Namespace, name, r.Namespace, "wire")
	r.Do(t, func() error { return errors.Join(AddAddrs("wire", addrs...), AddAddrs("lo")) })
	r.awaitIPv6(t)
	return r
}

// awaitIPv6 waits until the router takes part in IPv6: the kernel does so after it has heard of
// the carrier, and until then drops packets that are sent to all nodes.
func (r Router) awaitIPv6(t testing.TB) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waits.Limit(10 * time.Second)); !r.joinsGroups(t); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("the router has no route for multicast on its wire")
		}
	}
}

// joinsGroups reports whether the router has the route of ff00::/8 on its wire.
func (r Router) joinsGroups(t testing.TB) (joins bool) {
	t.Helper()
	r.Do(t, func() error {
		link, err := netlink.LinkByName("wire")
		if err != nil {
			return err
		}
		filter := &netlink.Route{LinkIndex: link.Attrs().Index, Table: unix.RT_TABLE_LOCAL}
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V6, filter, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
		joins = slices.ContainsFunc(
			routes,
			func(route netlink.Route) bool { return route.Dst != nil && route.Dst.String() == "ff00::/8" },
		)
		return err
	})
	return joins
}

// Wire connects two namespaces by a pair of devices of MTU 1500. The first device is up.
func Wire(t testing.TB, a *netnstest.Namespace, nameA string, b *netnstest.Namespace, nameB string) {
	t.Helper()
	file, err := os.Open(b.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	a.Do(t, func() error {
		link := &netlink.Veth{
			LinkAttrs:     netlink.LinkAttrs{Name: nameA, TxQLen: -1, MTU: 1500},
			PeerName:      nameB,
			PeerNamespace: netlink.NsFd(int(file.Fd())),
		}
		return errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link))
	})
}

// AddAddrs adds addresses to a device of the calling thread's namespace, and sets it up.
func AddAddrs(device string, addrs ...string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	for _, text := range addrs {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if addr.IP.To4() == nil {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(link)
}

// Spec returns an interface on eth0 in a pod.
func Spec(pod *netnstest.Namespace, addrs ...string) ifdriver.Spec {
	if len(addrs) == 0 {
		addrs = []string{"192.0.2.7/24", "2001:db8::7/64"}
	}
	s := ifdriver.Spec{
		ContainerID: "0123456789abcdef", IfName: "eth0", Request: "", PodUID: "uid", Network: "alioth", Description: "customer-a/web-1",
		NetnsPath: pod.Path, MAC: net.HardwareAddr{2, 0, 192, 0, 2, 7}, Config: netif.Config{Parent: "eth0", IPv6: netif.IPv6On},
	}
	for _, a := range addrs {
		s.Addrs = append(s.Addrs, netip.MustParsePrefix(a))
		s.Gateways = append(s.Gateways, netip.MustParsePrefix(a).Masked().Addr().Next())
	}
	s.MAC[5] = s.Addrs[0].Addr().AsSlice()[3]
	return s
}

// MustAttach attaches a pod, or ends the test.
func MustAttach(t testing.TB, n Node, s ifdriver.Spec) ifdriver.Link {
	t.Helper()
	link, err := n.Driver.Attach(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// Notes returns the names of the files that the driver has.
func (n Node) Notes(t testing.TB) []string {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(n.Dir, string(n.devices.Kind)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// AddressesOf lists the addresses of a device, and fails the test for an address that is not
// usable yet. The kernel adds the link-local one by itself, and makes it usable a moment later.
func AddressesOf(t testing.TB, n *netnstest.Namespace, device string) []string {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(waits.Limit(20 * time.Second)); ; <-again.C {
		out, tentative := listAddresses(t, n, device)
		switch {
		case len(tentative) == 0:
			return out
		case time.Now().After(end) ||
			slices.ContainsFunc(tentative, func(ip net.IP) bool { return !ip.IsLinkLocalUnicast() }):
			t.Errorf("the addresses %v are tentative", tentative)
			return out
		}
	}
}

func listAddresses(t testing.TB, n *netnstest.Namespace, device string) (out []string, tentative []net.IP) {
	t.Helper()
	link := n.Link(t, device)
	n.Do(t, func() error {
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			list, err := netlink.AddrList(link, family)
			if err != nil {
				return err
			}
			for _, a := range list {
				if a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 {
					tentative = append(tentative, a.IP)
				}
				if a.IP.IsLinkLocalUnicast() {
					out = append(out, "link-local")
				} else {
					out = append(out, a.IPNet.String())
				}
			}
		}
		return nil
	})
	return out, tentative
}

// Serve answers every TCP connection to port 80 in a namespace with a text.
func Serve(t *testing.T, n *netnstest.Namespace, text string) {
	t.Helper()
	var listener net.Listener
	n.Do(t, func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":80")
		return err
	})
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(text + "\n"))
			conn.Close()
		}
	}()
}

// Ask connects from an address of a namespace, and returns the answer.
func Ask(t *testing.T, n *netnstest.Namespace, from, to string, patience time.Duration) (answer string, err error) {
	t.Helper()
	n.Do(t, func() error {
		dialer := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		address := netip.AddrPortFrom(netip.MustParseAddr(to), 80).String()
		var conn net.Conn
		if conn, err = dialer.DialContext(t.Context(), "tcp", address); err != nil {
			return nil
		}
		defer conn.Close()
		if err = conn.SetDeadline(time.Now().Add(waits.Limit(20 * time.Second))); err != nil {
			return nil
		}
		answer, err = bufio.NewReader(conn).ReadString('\n')
		return nil
	})
	return strings.TrimSpace(answer), err
}

// Enslave makes eth0 of the calling thread's namespace a port of a bridge.
func Enslave() error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "bridge", TxQLen: -1}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return err
	}
	return netnstest.OnLink("eth0", func(l netlink.Link) error { return netlink.LinkSetMaster(l, bridge) })()
}

// AwaitNeighbours waits until a router knows exactly these addresses at an Ethernet
// address, link-local ones aside.
func AwaitNeighbours(t testing.TB, r Router, mac net.HardwareAddr, want ...string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	known := map[string]bool{}
	for end := time.Now().Add(waits.Limit(10 * time.Second)); time.Now().Before(end) && len(known) < len(want); <-tick.C {
		r.Do(t, func() error {
			list, err := netlink.NeighList(0, netlink.FAMILY_ALL)
			for _, row := range list {
				if bytes.Equal(row.HardwareAddr, mac) && !row.IP.IsLinkLocalUnicast() {
					known[row.IP.String()] = true
				}
			}
			return err
		})
	}
	for _, ip := range want {
		if !known[ip] {
			t.Errorf("at %s the router does not know %s", mac, ip)
		}
	}
}

// place implements ifdriver.Place by an underlay that a test may change.
type place struct{ underlay *ifdriver.Underlay }

// Underlay implements ifdriver.Place.
func (p place) Underlay() (ifdriver.Underlay, error) { return *p.underlay, nil }
