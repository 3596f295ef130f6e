// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/test/waits"
)

// TestNetfilter_PodLikeDeviceName_NotPod: whatever the name of a device of the node, and whatever its
// group, the node's sockets get no packet from there that has a pod's shadow as its source.
// The device is made by hand, so no check of names is in the way.
func TestNetfilter_PodLikeDeviceName_NotPod(t *testing.T) {
	for name, c := range map[string]struct {
		device string
		change func(device string) error
		reason string
	}{
		"the name of a host link":           {"alvred.1310", nil, ReasonForeignShadow},
		"the name of a host end":            {"alv0123456789ab", nil, ReasonForeignShadow},
		"a second name of a host end":       {"physnet", addAltName("alv0123456789ab"), ReasonForeignShadow},
		"the prefix of the node's own ones": {"alioth_node2", nil, ReasonForeignShadow},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testState().NodeMark)
			thief := r.plug(t, c.device)
			if c.change != nil {
				testnet.In(t, r.node, func() error { return c.change(c.device) })
			}
			r.refuses(t, thief, c.reason)
		})
	}
}

// TestNetfilter_DeviceInPodGroup_IsPod: a device that a pod had for a while may have
// the group that the pod gave it.
func TestNetfilter_DeviceInPodGroup_IsPod(t *testing.T) {
	r := newRig(t, testState().NodeMark)
	thief := r.plug(t, "cable")
	testnet.In(t, r.node, func() error {
		cable, err := netlink.LinkByName("cable")
		if err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr = "returned", cable.Attrs().HardwareAddr
		bridge := &netlink.Bridge{LinkAttrs: attrs}
		return errors.Join(netlink.LinkAdd(bridge), netlink.LinkSetUp(bridge), netlink.LinkSetMaster(cable, bridge),
			setGroup("returned", hostdev.PodGroup))
	})
	r.refuses(t, thief, ReasonUnhandled)
}

// TestNetfilterRules_DeviceNames_NoPrefixMatch: a rule that compares less than a whole name of a device
// holds for devices that somebody else has named.
func TestNetfilterRules_DeviceNames_NoPrefixMatch(t *testing.T) {
	names := []expr.MetaKey{expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME, metaIIFKind}
	for _, c := range chains(testState()) {
		for at, r := range c.rules {
			for i, e := range r {
				meta, ok := e.(*expr.Meta)
				if !ok || !slices.Contains(names, meta.Key) {
					continue
				}
				cmp, ok := r[i+1].(*expr.Cmp)
				if !ok || len(cmp.Data) != unix.IFNAMSIZ {
					t.Errorf("rule %d of chain %s compares a part of a name: %v", at, c.name, r[i+1])
				}
			}
		}
	}
}

func addAltName(name string) func(string) error {
	return func(device string) error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		return netlink.LinkAddAltName(link, name)
	}
}

// Addresses of the pod and the node, as a thief uses them.
const podShadow, nodeShadow = "169.254.64.5", "169.254.64.1"

func forgeAddress(device string) error { return addAddress(device, podShadow+"/32") }

// plug joins a device of the node to a namespace that pretends to be the pod.
func (r rig) plug(t *testing.T, device string) ns.NetNS {
	t.Helper()
	thief := testnet.New(t)
	testnet.Veth(t, r.node, device, nil, thief, "eth0", nil)
	testnet.In(t, thief, func() error { return forgeAddress("eth0") })
	routes(t, thief, "eth0", "", nodeShadow+"/32")
	neighbours(t, thief, "eth0", r.node, device, nodeShadow)
	return thief
}

// refuses opens a flow from the node to the pod, and lets the thief reply in the pod's
// place. It fails if the node's socket gets the reply, or another reason is counted.
func (r rig) refuses(t *testing.T, thief ns.NetNS, reason string) {
	t.Helper()
	var socket net.PacketConn
	testnet.In(t, r.node, func() (err error) {
		socket, err = (&net.ListenConfig{}).ListenPacket(context.Background(), "udp4", nodeShadow+":0")
		return err
	})
	defer socket.Close()
	pod := netip.AddrPortFrom(netip.MustParseAddr(podShadow), 4242)
	if _, err := socket.WriteTo([]byte("question"), net.UDPAddrFromAddrPort(pod)); err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 1)
	go func() {
		buffer := make([]byte, 16)
		n, _, err := socket.ReadFrom(buffer)
		if err == nil {
			heard <- string(buffer[:n])
		}
	}()
	testnet.In(t, thief, func() error {
		conn, err := (&net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(pod)}).Dial("udp4", socket.LocalAddr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("forged"))
		return err
	})
	for ended := time.After(waits.Limit(time.Minute)); ; {
		select {
		case text := <-heard:
			t.Fatalf("the node's socket has received %q", text)
		case <-ended:
			t.Fatalf("no packet is counted as %s: %v", reason, r.counted(t))
		case <-time.After(10 * time.Millisecond):
		}
		if r.counted(t)[reason] > 0 {
			return
		}
	}
}

// counted returns the dropped packets by reason.
func (r rig) counted(t *testing.T) map[string]uint64 {
	t.Helper()
	counted := map[string]uint64{}
	testnet.In(t, r.node, func() error {
		list, err := Counters()
		for _, c := range list {
			if c.Packets > 0 {
				counted[c.Reason] = c.Packets
			}
		}
		if err != nil {
			return fmt.Errorf("read counters: %w", err)
		}
		return nil
	})
	return counted
}
