// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/pair"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

func TestCheck_ChangedInterface_DifferenceReported(t *testing.T) {
	everyKind(t, testCheckNoticesWhatChanged)
}

func testCheckNoticesWhatChanged(t *testing.T, kind pair.Devices) {
	eth0 := func(do func(netlink.Link) error) func() error {
		return func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return do(link)
		}
	}
	for _, tc := range []struct {
		name   string
		change func() error
		want   string
	}{
		{"nothing", func() error { return nil }, ""},
		{"an address was added", eth0(func(l netlink.Link) error {
			addr, _ := netlink.ParseAddr("10.99.0.1/24")
			return netlink.AddrAdd(l, addr)
		}), ""},
		{"an address was taken away", eth0(func(l netlink.Link) error {
			addr, _ := netlink.ParseAddr("fd10:10:0:1::7/64")
			return netlink.AddrDel(l, addr)
		}), "address fd10:10:0:1::7/64 is gone"},
		{"the MTU", eth0(func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1300) }), "MTU 1300"},
		{"the MAC", eth0(func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, net.HardwareAddr{2, 0, 0, 0, 0, 9}) }), "MAC 02:00:00:00:00:09"},
		{"down", eth0(netlink.LinkSetDown), "is down"},
		{"the default route", eth0(func(l netlink.Link) error {
			return netlink.RouteDel(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}})
		}), "default route by 10.10.1.1 is gone"},
		{"the interface", eth0(netlink.LinkDel), "is gone"},
		{"another interface in its place", eth0(func(l netlink.Link) error {
			return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, "eth9"),
				addForeign("eth0"))
		}), "other end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, pod := newNode(t, kind), netnstest.New(t)
			s := spec(pod)
			made, err := n.attacher.Attach(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pod.Do(t, tc.change)
			got, err := n.attacher.Check(t.Context(), s)
			if tc.want == "" {
				if diff := cmp.Diff(made, got); err != nil || diff != "" {
					t.Errorf("%v (-made +checked):\n%s", err, diff)
				}
				return
			}
			if !errors.Is(err, ifdriver.ErrMismatch) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an ErrMismatch with %q", err, tc.want)
			}
		})
	}
}

func TestPairCheck_PodEndMTU_DifferenceReported(t *testing.T) {
	everyKind(t, testThePodsEndGetsAnotherMTU)
}

func testThePodsEndGetsAnotherMTU(t *testing.T, kind pair.Devices) {
	for _, tc := range []struct {
		name   string
		change func() error
		want   error
	}{
		{"as it was made", func() error { return nil }, nil},
		{"another interface in its place", func() error {
			link, err := netlink.LinkByName("eth0")
			return errors.Join(err, netlink.LinkSetDown(link), netlink.LinkSetName(link, "eth9"), addForeign("eth0"))
		}, ifdriver.ErrMismatch},
		{"without it", func() error {
			link, err := netlink.LinkByName("eth0")
			return errors.Join(err, netlink.LinkDel(link))
		}, ifdriver.ErrGone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, pod := newNode(t, kind), netnstest.New(t)
			s := spec(pod)
			if _, err := n.attacher.Attach(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			pod.Do(t, tc.change)
			s.MTU = 1280
			for range 2 { // the second time there is nothing to do
				if err := n.attacher.Resize(t.Context(), s); !errors.Is(err, tc.want) {
					t.Fatalf("got %v, want %v", err, tc.want)
				}
			}
			if tc.want != nil {
				return
			}
			pod.Do(t, func() error {
				link, err := netlink.LinkByName("eth0")
				if err == nil && link.Attrs().MTU != 1280 {
					t.Errorf("the MTU is %d", link.Attrs().MTU)
				}
				return err
			})
		})
	}
}

func TestPairCheck_NamespaceOrHostEndMissing_Reported(t *testing.T) {
	everyKind(t, testCheckNoticesAMissingNamespaceOrHostEnd)
}

func testCheckNoticesAMissingNamespaceOrHostEnd(t *testing.T, kind pair.Devices) {
	n, pod := newNode(t, kind), netnstest.New(t)
	s := spec(pod)
	if _, err := n.attacher.Check(t.Context(), s); !errors.Is(err, ifdriver.ErrMismatch) || !errors.Is(err, ifdriver.ErrGone) {
		t.Errorf("before attach: %v", err)
	}
	if _, err := n.attacher.Attach(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	s.NetnsPath = "/proc/1/ns/nothing"
	if _, err := n.attacher.Check(t.Context(), s); !errors.Is(err, ifdriver.ErrMismatch) || errors.Is(err, ifdriver.ErrGone) {
		t.Errorf("without the namespace's path: %v", err)
	}
}
