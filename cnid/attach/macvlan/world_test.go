// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package macvlan_test

import (
	"bufio"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attach/child"
	"github.com/alioth-net/alioth/cnid/attach/macvlan"
	"github.com/alioth-net/alioth/cnid/netns/netnstest"
)

// node is a namespace that plays the node's, with a driver for it. Its devices lead to
// routers.
type node struct {
	*netnstest.Namespace
	driver attach.Driver
	// dir has the driver's notes.
	dir string
}

// newNode returns a node with a device eth0, which has the name of a pod's interface too,
// and the router that is at its other end.
func newNode(t testing.TB) (node, router) {
	t.Helper()
	n := node{Namespace: netnstest.New(t), dir: t.TempDir()}
	n.start(t)
	return n, n.addDevice(t, "eth0", "192.0.2.1/24", "2001:db8::1/64")
}

// start opens a driver, as a daemon does that starts.
func (n *node) start(t testing.TB) {
	t.Helper()
	n.Do(t, func() (err error) {
		n.driver, err = macvlan.Devices.Type().Open(attach.Node{Dir: n.dir})
		return err
	})
	t.Cleanup(n.driver.Close)
}

// router is at the other end of a device of the node.
type router struct{ *netnstest.Namespace }

// addDevice gives the node a device, and returns the router at its other end, which has
// these addresses there.
func (n *node) addDevice(t testing.TB, name string, addrs ...string) router {
	t.Helper()
	r := router{netnstest.New(t)}
	file, err := os.Open(r.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	n.Do(t, func() error {
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1, MTU: 1500}, PeerName: "wire", PeerNamespace: netlink.NsFd(int(file.Fd()))}
		return errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link))
	})
	r.Do(t, func() error { return errors.Join(addAddrs("wire", addrs...), addAddrs("lo")) })
	return r
}

// addAddrs adds addresses to a device of the calling thread's namespace, and sets it up.
func addAddrs(device string, addrs ...string) error {
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

// spec is an interface on eth0 in a pod.
func spec(pod *netnstest.Namespace, addrs ...string) attach.Spec {
	if len(addrs) == 0 {
		addrs = []string{"192.0.2.7/24", "2001:db8::7/64"}
	}
	s := attach.Spec{
		ContainerID: "0123456789abcdef", IfName: "eth0", Request: "", PodUID: "uid", Network: "alioth", Description: "customer-a/web-1",
		NetnsPath: pod.Path, MAC: net.HardwareAddr{2, 0, 192, 0, 2, 7}, Parent: "eth0", IPv6: attach.IPv6On,
	}
	for _, a := range addrs {
		s.Addrs = append(s.Addrs, netip.MustParsePrefix(a))
		s.Gateways = append(s.Gateways, netip.MustParsePrefix(a).Masked().Addr().Next())
	}
	s.MAC[5] = s.Addrs[0].Addr().AsSlice()[3]
	return s
}

func mustAttach(t testing.TB, n node, s attach.Spec) attach.Link {
	t.Helper()
	link, err := n.driver.Attach(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// links returns the names of all devices but lo.
func links(t testing.TB, n *netnstest.Namespace) []string {
	t.Helper()
	names := []string{}
	n.Do(t, func() error {
		list, err := net.Interfaces()
		for _, l := range list {
			if l.Name != "lo" {
				names = append(names, l.Name)
			}
		}
		return err
	})
	return names
}

func linkByName(t testing.TB, n *netnstest.Namespace, name string) (link netlink.Link) {
	t.Helper()
	n.Do(t, func() (err error) {
		link, err = netlink.LinkByName(name)
		return err
	})
	return link
}

// rules returns the number of routing rules of a namespace.
func rules(t testing.TB, n *netnstest.Namespace) (count int) {
	t.Helper()
	n.Do(t, func() error {
		list, err := netlink.RuleList(unix.AF_UNSPEC)
		count = len(list)
		return err
	})
	return count
}

// notes returns the names of the files that the driver has.
func (n node) notes(t testing.TB) []string {
	t.Helper()
	files, err := os.ReadDir(n.dir + "/macvlan")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// addressesOf lists those of a device, and fails the test for one that is not usable yet.
// The kernel adds the link-local one by itself, and makes it usable a moment later.
func addressesOf(t testing.TB, n *netnstest.Namespace, device string) []string {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-again.C {
		out, tentative := listAddresses(t, n, device)
		switch {
		case len(tentative) == 0:
			return out
		case time.Now().After(end) || slices.ContainsFunc(tentative, func(ip net.IP) bool { return !ip.IsLinkLocalUnicast() }):
			t.Errorf("the addresses %v are tentative", tentative)
			return out
		}
	}
}

func listAddresses(t testing.TB, n *netnstest.Namespace, device string) (out []string, tentative []net.IP) {
	t.Helper()
	link := linkByName(t, n, device)
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

// serve answers every TCP connection to port 80 in a namespace with a text.
func serve(t *testing.T, n *netnstest.Namespace, text string) {
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

// ask connects from an address of a namespace, and returns the answer.
func ask(t *testing.T, n *netnstest.Namespace, from, to string, patience time.Duration) (answer string, err error) {
	t.Helper()
	n.Do(t, func() error {
		dialer := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		var conn net.Conn
		if conn, err = dialer.DialContext(t.Context(), "tcp", netip.AddrPortFrom(netip.MustParseAddr(to), 80).String()); err != nil {
			return nil
		}
		defer conn.Close()
		if err = conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			return nil
		}
		answer, err = bufio.NewReader(conn).ReadString('\n')
		return nil
	})
	return strings.TrimSpace(answer), err
}

var _ attach.Driver = (*child.Driver)(nil)
