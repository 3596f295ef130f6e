// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenic

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

func TestDelegatedNIC_AttachDetach_DeviceMovedAndReturned(t *testing.T) {
	n, one, two := newNodeWithTwo(t)
	isInThePodAndComesBack(t, n, one, two)
}

// isInThePodAndComesBack tests the devices nic0 and nic1 of a node.
func isInThePodAndComesBack(t *testing.T, n *node, one, two net.HardwareAddr) {
	t.Helper()
	pod := netnstest.New(t)
	before := n.states(t)
	onDevice(t, n.Namespace, "nic0", netlink.LinkSetUp, func(l netlink.Link) error { return netlink.LinkAddAltName(l, "enp7s0") })
	a := of(pod, "c")
	n.mustAttach(t, a, first(one), second(two))
	if got := pod.Links(t); !slices.Equal(got, []string{"eth1", "eth2"}) {
		t.Fatalf("the pod has %v", got)
	}
	link := pod.Link(t, "eth1").Attrs()
	if link.MTU != mtu || link.Flags&net.FlagUp == 0 || !bytes.Equal(link.HardwareAddr, one) {
		t.Errorf("MTU %d, flags %s, address %s", link.MTU, link.Flags, link.HardwareAddr)
	}
	if err := n.check(t, a, "eth1", "eth2"); err != nil {
		t.Errorf("check: %v", err)
	}
	n.mustAttach(t, a, first(one), second(two))
	if again := pod.Link(t, "eth1").Attrs(); again.Index != link.Index || again.Flags&net.FlagUp == 0 {
		t.Errorf("a repeated ADD has moved the device")
	}
	onDevice(t, pod, "eth1", func(l netlink.Link) error { return netlink.LinkAddAltName(l, "nic1") })
	for range 2 {
		n.mustDetach(t, a)
	}
	onDevice(t, n.Namespace, "nic0", func(l netlink.Link) error { return netlink.LinkDelAltName(l, "enp7s0") })
	n.asBefore(t, before) // down, as it was before somebody set it up for the pod
	if got := pod.Links(t); len(got) != 0 {
		t.Errorf("the pod still has %v", got)
	}
}

// gateway makes the namespace of a network answer for the gateways, for addresses beyond
// them, and have a route to the pod.
func gateway(t *testing.T, network *netnstest.Namespace) {
	t.Helper()
	network.Do(t, netnstest.OnLink("far",
		withAddr("169.254.2.1/32"), withAddr("192.0.2.99/32"),
		func(l netlink.Link) error {
			for _, text := range []string{"fe80::1234:5678:9abc/64", "2001:db8:9::9/128"} {
				addr, err := netlink.ParseAddr(text)
				if err != nil {
					return err
				}
				addr.Flags = unix.IFA_F_NODAD
				if err := netlink.AddrAdd(l, addr); err != nil {
					return err
				}
			}
			return nil
		},
		func(l netlink.Link) error {
			for _, to := range first(nil).Addrs {
				dst := &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Bits())}
				if err := netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK}); err != nil {
					return err
				}
			}
			return nil
		}))
}

// converse sends a text from a pod to an address of a network, and returns the answer, which
// names the network.
func converse(t *testing.T, pod, network *netnstest.Namespace, to, name string) (answer string) {
	t.Helper()
	var server net.PacketConn
	network.Do(t, func() (err error) {
		server, err = (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", net.JoinHostPort(to, "7"))
		return err
	})
	defer server.Close()
	go func() {
		buffer := make([]byte, 64)
		if _, from, err := server.ReadFrom(buffer); err == nil {
			_, _ = server.WriteTo([]byte(name), from)
		}
	}()
	pod.Do(t, func() error {
		client, err := (&net.Dialer{}).DialContext(t.Context(), "udp", net.JoinHostPort(to, "7"))
		if err != nil {
			return err
		}
		defer client.Close()
		if err := client.SetDeadline(time.Now().Add(waits.Limit(10 * time.Second))); err != nil {
			return err
		}
		if _, err := client.Write([]byte("who is there?")); err != nil {
			return err
		}
		buffer := make([]byte, 64)
		size, err := client.Read(buffer)
		answer = string(buffer[:size])
		return err
	})
	return answer
}

func TestDelegatedNIC_PodsShareAddresses_OwnNetworksReached(t *testing.T) {
	n := newNode(t)
	before := map[string]*netnstest.Namespace{}
	for i, name := range []string{"a", "b"} {
		pod, network := netnstest.New(t), n.plug(t, "nic"+name, macOf(byte(i)))
		gateway(t, network)
		n.mustAttach(t, of(pod, name), first(macOf(byte(i))))
		before[name] = pod
		for _, to := range []string{"192.0.2.99", "2001:db8:9::9"} {
			if got := converse(t, pod, network, to, name); got != name {
				t.Errorf("pod %s talks with %s", name, got)
			}
		}
	}
	n.mustDetach(t, of(before["a"], "a"))
	if got := before["b"].Links(t); !slices.Equal(got, []string{"eth1"}) {
		t.Errorf("the release of one pod's device left the other pod %v", got)
	}
}

func TestDelegatedNIC_NeededByNode_NotMoved(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*testing.T, *node)
		text    string
		passes  bool
	}{
		"missing": {func(*testing.T, *node) {}, "none has the address", true},
		"an address": {func(t *testing.T, n *node) {
			n.plug(t, "nic0", macOf(1))
			onDevice(t, n.Namespace, "nic0", withAddr("192.0.2.1/24"))
		}, "node's address", false},
		"a default route": {func(t *testing.T, n *node) {
			n.plug(t, "nic0", macOf(1))
			onDevice(t, n.Namespace, "nic0", netlink.LinkSetUp, func(l netlink.Link) error {
				return netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}})
			})
		}, "default route", false},
		"a controller": {func(t *testing.T, n *node) {
			n.plug(t, "nic0", macOf(1))
			onDevice(t, n.Namespace, "nic0", func(l netlink.Link) error {
				attrs := netlink.NewLinkAttrs()
				attrs.Name, attrs.HardwareAddr = "br0", macOf(9)
				bridge := &netlink.Bridge{LinkAttrs: attrs}
				return errors.Join(netlink.LinkAdd(bridge), netlink.LinkSetMaster(l, bridge))
			})
		}, "controller br0", false},
		"ambiguous": {func(t *testing.T, n *node) { n.plug(t, "nic0", macOf(1)); n.plug(t, "nic1", macOf(1)) }, "both have the address", false},
	} {
		t.Run(name, func(t *testing.T) {
			n, pod := newNode(t), netnstest.New(t)
			n.plug(t, "nic7", macOf(7))
			c.prepare(t, n)
			before := n.states(t)
			err := n.attach(t, of(pod, "c"), second(macOf(7)), first(macOf(1)))
			if err == nil || !strings.Contains(err.Error(), c.text) || Passes(err) != c.passes {
				t.Errorf("%v (passes: %t), want %q", err, Passes(err), c.text)
			}
			n.asBefore(t, before) // the other device stays, too
		})
	}
}

func TestDelegatedNIC_NameUsedInPod_NotTaken(t *testing.T) {
	n, pod := newNode(t), netnstest.New(t)
	n.plug(t, "nic0", macOf(1))
	n.plug(t, "nic1", macOf(2))
	pod.Do(t, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "eth2"
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "peer"})
	})
	onDevice(t, n.Namespace, "nic0", netlink.LinkSetUp) // which a move would undo
	before := n.states(t)
	err := n.attach(t, of(pod, "c"), first(macOf(1)), second(macOf(2)))
	if !errors.Is(err, ifdriver.ErrExists) || Passes(err) || !strings.Contains(err.Error(), "eth2") {
		t.Errorf("%v", err)
	}
	n.asBefore(t, before)
	if got := pod.Links(t); !slices.Equal(got, []string{"eth2", "peer"}) {
		t.Errorf("the pod has %v", got)
	}
}

func TestDelegatedNIC_FailureHalfWay_AllReturned(t *testing.T) {
	n, pod := newNode(t), netnstest.New(t)
	n.plug(t, "nic0", macOf(1))
	n.plug(t, "nic1", macOf(2))
	before := n.states(t)
	other := second(macOf(2))
	other.Routes = first(nil).Routes[:2] // a second default route
	err := n.attach(t, of(pod, "c"), first(macOf(1)), other)
	if err == nil || !strings.Contains(err.Error(), "(nic1) the interface eth2") || !errors.Is(err, unix.EEXIST) || Passes(err) {
		t.Errorf("%v", err)
	}
	n.asBefore(t, before)
	if got := pod.Links(t); len(got) != 0 {
		t.Errorf("the pod has %v", got)
	}
}

func TestDelegatedNIC_NodeNamespace_Refused(t *testing.T) {
	n := newNode(t)
	n.plug(t, "nic0", macOf(1))
	before := n.states(t)
	if err := n.attach(t, of(n.Namespace, "c"), first(macOf(1))); err == nil || Passes(err) {
		t.Errorf("%v", err)
	}
	n.asBefore(t, before)
}

func TestDelegatedNIC_NoDevices_NothingWritten(t *testing.T) {
	n, pod := newNode(t), netnstest.New(t)
	a := of(pod, "c")
	n.mustAttach(t, a)
	n.mustDetach(t, a)
	if err := n.check(t, a); err != nil {
		t.Error(err)
	}
	if err := n.run(t, func() error { return n.Collect(t.Context(), "infra", nil) }); err != nil {
		t.Error(err)
	}
	n.untouched(t)
}

func TestDelegatedNIC_DeviceDroppedFromAnswer_Removed(t *testing.T) {
	n, pod := newNode(t), netnstest.New(t)
	n.plug(t, "nic0", macOf(1))
	before := n.states(t)
	n.mustAttach(t, of(pod, "c"), first(macOf(1)))
	n.mustAttach(t, of(pod, "c"))
	n.asBefore(t, before)
	n.mustAttach(t, Attachment{ContainerID: "d", IfName: "eth0", NetnsPath: "of another kind"})
}

func TestDelegatedNIC_PodAlive_DeviceStays(t *testing.T) {
	n, pod, other := newNode(t), netnstest.New(t), netnstest.New(t)
	n.plug(t, "nic0", macOf(1))
	n.mustAttach(t, of(pod, "c"), first(macOf(1)))
	err := n.attach(t, of(other, "d"), first(macOf(1)))
	if !Passes(err) || !strings.Contains(err.Error(), "eth1 of sandbox c") {
		t.Errorf("%v", err)
	}
	if err := n.check(t, of(pod, "c"), "eth1"); err != nil {
		t.Errorf("%v", err)
	}
	n.mustDetach(t, of(pod, "c"))
	n.mustAttach(t, of(other, "d"), first(macOf(1)))
	n.noted(t, 1)
}

// whatAPodChanges of its device.
func whatAPodChanges() []func(netlink.Link) error {
	return []func(netlink.Link) error{
		netlink.LinkSetDown,
		func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1300) },
		func(l netlink.Link) error { return netlink.LinkSetAlias(l, "mine") },
		func(l netlink.Link) error { return netlink.LinkSetGroup(l, int(hostdev.PodGroup)) },
		func(l netlink.Link) error { return netlink.LinkAddAltName(l, "best") },
		func(l netlink.Link) error { return netlink.LinkSetName(l, "lan0") },
	}
}

func TestDelegatedNIC_PodChangesDevice_Undone(t *testing.T) {
	n, pod := newNode(t), netnstest.New(t)
	n.plug(t, "nic0", macOf(1))
	before := n.states(t)
	a := of(pod, "c")
	n.mustAttach(t, a, first(macOf(1)))
	onDevice(t, pod, "eth1", whatAPodChanges()...)
	n.mustDetach(t, a)
	n.asBefore(t, before)
}

func TestDelegatedNIC_PodGone_NoError(t *testing.T) {
	n, pod := newNode(t), netnstest.New(t)
	n.plug(t, "nic0", macOf(1))
	a := of(pod, "c")
	n.mustAttach(t, a, first(macOf(1)))
	pod.Close(t)
	for range 2 {
		n.mustDetach(t, a)
	}
	n.noted(t, 0)
	if got := n.Links(t); len(got) != 0 { // the kernel deletes a veth with its namespace
		t.Errorf("the node has %v", got)
	}
	if err := n.attach(t, a, first(macOf(1))); err == nil {
		t.Error("attached to a namespace that is gone")
	}
}

func TestDelegatedNICCheck_EachDifference_Found(t *testing.T) {
	route := func(dst string) func(netlink.Link) error {
		return func(l netlink.Link) error {
			to := prefix(dst)
			return netlink.RouteDel(
				&netlink.Route{LinkIndex: l.Attrs().Index, Dst: &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Addr().BitLen())}},
			)
		}
	}
	for name, c := range map[string]struct {
		do   func(netlink.Link) error
		text string
	}{
		"down":                       {netlink.LinkSetDown, "is down"},
		"renamed":                    {func(l netlink.Link) error { return netlink.LinkSetName(l, "lan0") }, "eth1 is gone"},
		"no address":                 {func(l netlink.Link) error { return delAddr(l, "203.0.113.5/32") }, "address 203.0.113.5/32 is gone"},
		"no IPv6 address":            {func(l netlink.Link) error { return delAddr(l, "2001:db8:1::5/128") }, "address 2001:db8:1::5/128 is gone"},
		"no default route":           {route("0.0.0.0/0"), "default route by 169.254.2.1 is gone"},
		"no IPv6 default route":      {route("::/0"), "default route by fe80::1234:5678:9abc is gone"},
		"an MTU":                     {func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1300) }, "MTU 1300"},
		"another device of its name": {func(l netlink.Link) error { return replaced(l, "dummy0") }, "is not the device"},
	} {
		t.Run(name, func(t *testing.T) {
			n, pod := newNode(t), netnstest.New(t)
			n.plug(t, "nic0", macOf(1))
			n.mustAttach(t, of(pod, "c"), first(macOf(1)))
			onDevice(t, pod, "eth1", c.do)
			err := n.check(t, of(pod, "c"), "eth1")
			if !errors.Is(err, ifdriver.ErrMismatch) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %q", err, c.text)
			}
		})
	}
	n, pod := newNode(t), netnstest.New(t)
	if err := n.check(t, of(pod, "c"), "eth1"); !errors.Is(err, ifdriver.ErrMismatch) {
		t.Errorf("a device that was never given: %v", err)
	}
}

func delAddr(l netlink.Link, text string) error {
	addr, err := netlink.ParseAddr(text)
	if err != nil {
		return err
	}
	return netlink.AddrDel(l, addr)
}

// replaced renames a device, and gives its name to another one.
func replaced(l netlink.Link, name string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = l.Attrs().Name
	return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, name), netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "peer"}),
		netnstest.OnLink(attrs.Name, netlink.LinkSetUp)())
}

func TestDelegatedNICCollect_PodsGone_DevicesReturned(t *testing.T) {
	n, kept, gone := newNode(t), netnstest.New(t), netnstest.New(t)
	n.plug(t, "nic0", macOf(1))
	n.plug(t, "nic1", macOf(2))
	n.mustAttach(t, of(kept, "kept"), first(macOf(1)))
	n.mustAttach(t, of(gone, "gone"), first(macOf(2)))
	collect := func(network string) {
		t.Helper()
		err := n.run(t, func() error {
			return n.Collect(t.Context(), network, func(containerID, ifName string) (bool, error) { return containerID == "gone" && ifName == "eth0", nil })
		})
		if err != nil {
			t.Error(err)
		}
	}
	collect("another")
	n.noted(t, 2)
	collect("infra")
	n.noted(t, 1)
	if got := n.Links(t); !slices.Equal(got, []string{"nic1"}) {
		t.Errorf("the node has %v", got)
	}
	unsure := errors.New("the service does not answer")
	err := n.run(t, func() error {
		return n.Collect(t.Context(), "infra", func(string, string) (bool, error) { return true, unsure })
	})
	if !errors.Is(err, unsure) || len(kept.Links(t)) != 1 {
		t.Errorf("%v, the pod has %v", err, kept.Links(t))
	}
}
