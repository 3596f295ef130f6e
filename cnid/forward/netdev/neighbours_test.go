// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/test/waits"
)

// Addresses of a node and a pod that have one link, and of a neighbour there: the pod has
// its addresses at the beginning. taken is the Ethernet address that the pod gives it.
const (
	nodeIP6, podLocal6  = "2001:db8::1", "fe80::5"
	besideIP, besideIP6 = "192.0.2.6", "2001:db8::6"
	newGateway6         = "fe80::6"
	behindPod6          = "2001:db8:ffff::9"
	advertised          = "2001:db8:aaaa::"
)

var taken = net.HardwareAddr{2, 0, 0, 0, 0, 0xee}

// neighbourhood is the link.
type neighbourhood struct {
	node, pod ns.NetNS
	// podMAC is the pod's Ethernet address.
	podMAC net.HardwareAddr
	server net.PacketConn
}

// TestNeighbour_PodAnnouncement_NodeLearnsNothing sends what hosts believe of their neighbours (RFC 826,
// RFC 4861) to a node that believes it by the settings of new devices. By a host end it has no
// effect, although no program of Alioth is there to drop it. By a device of others it has.
func TestNeighbour_PodAnnouncement_NodeLearnsNothing(t *testing.T) {
	for name, attack := range map[string]struct {
		send func(*neighbourhood) error
		// learned reports whether the node believes it.
		learned func() (bool, error)
	}{
		"gratuitous ARP for another's address":      {(*neighbourhood).claimByARP, func() (bool, error) { return isTaken(besideIP) }},
		"an advertisement for another's address":    {(*neighbourhood).claimByAdvertisement, func() (bool, error) { return isTaken(besideIP6) }},
		"a redirect of IPv6":                        {(*neighbourhood).redirect6, func() (bool, error) { return leadsBy(behindPod6, newGateway6) }},
		"a router advertisement: a default route":   {(*neighbourhood).advertiseRouter, func() (bool, error) { return leadsBy("2001:db8:bbbb::1", podLocal6) }},
		"a router advertisement: an address":        {(*neighbourhood).advertiseRouter, hasAdvertised},
		"a router advertisement: a smaller MTU":     {(*neighbourhood).advertiseRouter, func() (bool, error) { return settingIs("ipv6", "mtu", "1280") }},
		"a router advertisement: another hop limit": {(*neighbourhood).advertiseRouter, func() (bool, error) { return settingIs("ipv6", "hop_limit", "3") }},
	} {
		for device, guarded := range map[string]bool{"a host end": true, "a device of others": false} {
			t.Run(name+" by "+device, func(t *testing.T) {
				n := newNeighbourhood(t, guarded)
				waits.Until(t, 10*time.Second, "the kernel has the routes of a new device", func() (err error) {
					testnet.In(t, n.pod, func() error {
						err = attack.send(n)
						return nil
					})
					return err
				})
				testnet.In(t, n.pod, func() error { return sendUDP(false, "plain") })
				receive(t, n.server) // the messages before it have arrived too
				testnet.In(t, n.node, func() error {
					learned, err := attack.learned()
					if learned == guarded {
						t.Errorf("the node has learned it: %t", learned)
					}
					return err
				})
			})
		}
	}
}

// newNeighbourhood has a node that knows the neighbour beside the pod and a route by the pod.
func newNeighbourhood(t *testing.T, guarded bool) *neighbourhood {
	t.Helper()
	n := &neighbourhood{node: testnet.New(t), pod: testnet.New(t)}
	testnet.In(t, n.node, believing)
	testnet.Veth(t, n.node, podDevice, []string{nodeIP + "/24", nodeIP6 + "/64"},
		n.pod, "eth0", []string{podIP + "/24", besideIP + "/24", "2001:db8::5/64", besideIP6 + "/64", podLocal6 + "/64"})
	var nodeMAC net.HardwareAddr
	testnet.In(t, n.node, func() (err error) {
		if n.server, err = (&net.ListenConfig{}).ListenPacket(context.Background(), "udp4", nodeIP+":7000"); err != nil {
			return err
		}
		nodeMAC, err = n.prepare(guarded, filepath.Join(t.TempDir(), "sysctls.json"))
		return err
	})
	t.Cleanup(func() { n.server.Close() })
	testnet.In(t, n.pod, func() error { return n.knowNode(nodeMAC) })
	testnet.In(t, n.node, func() error { return errors.Join(awaitNeighbour(besideIP), awaitNeighbour(besideIP6)) })
	return n
}

// believing makes a host whose new devices believe everything.
func believing() error {
	var failures []error
	for name, value := range map[string]string{
		"ipv6/conf/default/accept_ra": "2", "ipv6/conf/default/autoconf": "1", "ipv6/conf/default/accept_redirects": "1",
		"ipv6/conf/default/accept_ra_mtu": "1", "ipv4/conf/default/arp_accept": "1", "ipv4/conf/default/drop_gratuitous_arp": "0",
	} {
		failures = append(failures, write(name, value))
	}
	return errors.Join(failures...)
}

// prepare makes a route by the pod, and of a host end what driver and daemon make.
func (n *neighbourhood) prepare(guarded bool, settings string) (net.HardwareAddr, error) {
	link, err := netlink.LinkByName(podDevice)
	if err != nil {
		return nil, err
	}
	index := link.Attrs().Index
	if guarded {
		host, err := New(settings, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, err
		}
		defer host.Close()
		pod := hostdev.Pod{Device: podDevice, Ifindex: index, Shadows: []netip.Addr{netip.MustParseAddr("fd41:6c69:6f74:6801::5")}}
		if err := errors.Join(netlink.LinkSetARPOff(link), host.tunePod(pod)); err != nil {
			return nil, err
		}
	}
	_, behind, _ := net.ParseCIDR("2001:db8:ffff::/64")
	return link.Attrs().HardwareAddr, netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: behind, Gw: net.ParseIP(podLocal6)})
}

// knowNode gives the pod the node as a neighbour, which may answer nobody.
func (n *neighbourhood) knowNode(mac net.HardwareAddr) error {
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	n.podMAC = link.Attrs().HardwareAddr
	var failures []error
	for _, ip := range []string{nodeIP, nodeIP6} {
		failures = append(failures, netlink.NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(ip), HardwareAddr: mac,
		}))
	}
	return errors.Join(failures...)
}

// awaitNeighbour sends to an address until the node knows it as a neighbour.
func awaitNeighbour(ip string) error {
	conn, err := net.Dial("udp", net.JoinHostPort(ip, "9"))
	if err != nil {
		return err
	}
	defer conn.Close()
	tick, end := time.NewTicker(5*time.Millisecond), time.After(waits.Limit(time.Minute))
	defer tick.Stop()
	for {
		_, _ = conn.Write([]byte("hello")) // nobody listens there, which an error may tell
		found, err := neighbour(ip)
		if err != nil || found != nil && found.State&(netlink.NUD_REACHABLE|netlink.NUD_STALE|netlink.NUD_DELAY|netlink.NUD_NOARP) != 0 {
			return err
		}
		select {
		case <-end:
			return fmt.Errorf("the node does not know %s", ip)
		case <-tick.C:
		}
	}
}

// neighbour returns what the node knows of an address, nil for nothing.
func neighbour(ip string) (*netlink.Neigh, error) {
	link, err := netlink.LinkByName(podDevice)
	if err != nil {
		return nil, err
	}
	// Neighbours of a device without ARP are listed only if they are asked for.
	for _, state := range []uint16{0, netlink.NUD_NOARP} {
		list, err := netlink.NeighListExecute(netlink.Ndmsg{Index: uint32(link.Attrs().Index), State: state})
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(list, func(n netlink.Neigh) bool { return n.IP.Equal(net.ParseIP(ip)) })
		if at >= 0 {
			return &list[at], nil
		}
	}
	return nil, nil
}

func isTaken(ip string) (bool, error) {
	found, err := neighbour(ip)
	if err == nil && found == nil {
		err = fmt.Errorf("the node does not know %s any more", ip)
	}
	return err == nil && bytes.Equal(found.HardwareAddr, taken), err
}

// leadsBy reports whether the node sends to an address by a gateway.
func leadsBy(to, gateway string) (bool, error) {
	found, err := netlink.RouteGet(net.ParseIP(to))
	if errors.Is(err, unix.ENETUNREACH) {
		return false, nil
	}
	return err == nil && found[0].Gw.Equal(net.ParseIP(gateway)), err
}

// hasAdvertised reports whether the node has an address in the advertised prefix.
func hasAdvertised() (bool, error) {
	list, err := netlink.AddrList(nil, netlink.FAMILY_V6)
	prefix := netip.PrefixFrom(netip.MustParseAddr(advertised), 64)
	return slices.ContainsFunc(list, func(a netlink.Addr) bool {
		ip, ok := netip.AddrFromSlice(a.IP)
		return ok && prefix.Contains(ip)
	}), err
}

func settingIs(family, name, value string) (bool, error) {
	have, err := (&settings{root: hostdev.SettingsRoot}).get(perDevice(family, podDevice, name))
	return have == value, err
}

func joined(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// claimByARP sends an ARP announcement (RFC 5227) to everybody.
func (n *neighbourhood) claimByARP() error {
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ip := net.ParseIP(besideIP).To4()
	everybody := bytes.Repeat([]byte{0xff}, 6)
	frame := joined(everybody, taken, []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 1}, taken, ip, everybody, ip)
	return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index, Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}})
}

// claimByAdvertisement sends an unsolicited neighbour advertisement that overrides.
func (n *neighbourhood) claimByAdvertisement() error {
	return sendControl(besideIP6, "ff02::1", joined([]byte{136, 0, 0, 0, 0x20, 0, 0, 0}, net.ParseIP(besideIP6), []byte{2, 1}, taken))
}

// redirect6 sends a redirect message: a new gateway for the address behind the pod.
func (n *neighbourhood) redirect6() error {
	message := joined([]byte{137, 0, 0, 0, 0, 0, 0, 0}, net.ParseIP(newGateway6), net.ParseIP(behindPod6), []byte{2, 1}, taken)
	return sendControl(podLocal6, nodeIP6, message)
}

// advertiseRouter sends a router advertisement with a default router, a prefix, an MTU and a
// hop limit.
func (n *neighbourhood) advertiseRouter() error {
	prefix := joined([]byte{3, 4, 64, 0xc0, 0, 0, 0x0e, 0x10, 0, 0, 0x0e, 0x10, 0, 0, 0, 0}, net.ParseIP(advertised))
	message := joined([]byte{134, 0, 0, 0, 3, 0, 0x0e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0}, []byte{1, 1}, n.podMAC, []byte{5, 1, 0, 0, 0, 0, 5, 0}, prefix)
	return sendControl(podLocal6, "ff02::1", message)
}

// sendControl sends a message of ICMPv6, whose checksum the kernel adds.
func sendControl(from, to string, message []byte) error {
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	at := func(ip string) *unix.SockaddrInet6 {
		return &unix.SockaddrInet6{Addr: netip.MustParseAddr(ip).As16(), ZoneId: uint32(link.Attrs().Index)}
	}
	return errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 255),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255),
		unix.Bind(fd, at(from)), unix.Sendto(fd, message, 0, at(to)),
	)
}
