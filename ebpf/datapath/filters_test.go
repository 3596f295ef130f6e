// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// attachedFilters returns our filters on interfaces in the current namespace.
func attachedFilters(t *testing.T) map[hook.Attachment]ebpf.ProgramID {
	t.Helper()
	found := allFilters(t)
	maps.DeleteFunc(found, func(a hook.Attachment, _ ebpf.ProgramID) bool { return IsOnNode(a.Program) })
	return found
}

// allFilters are those and the ones that stand in for links.
func allFilters(t *testing.T) map[hook.Attachment]ebpf.ProgramID {
	t.Helper()
	found, err := Filters()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wantPrograms checks that a pod's interface has the current programs.
func wantPrograms(t *testing.T, d *opened, ifindex int) {
	t.Helper()
	found := attachedFilters(t)
	for _, name := range []hook.Program{hook.FromPod, hook.ToPod} {
		if id, want := found[hook.Attachment{Ifindex: uint32(ifindex), Program: name}], d.ProgramID(name); id != want {
			t.Errorf("device %d has program %d as %s, want %d", ifindex, id, name, want)
		}
	}
}

// foreign is a filter that somebody else could have attached.
func foreign(w *world, ifindex int, parent uint32, priority uint16, handle uint32) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: ifindex, Parent: parent, Priority: priority, Handle: handle, Protocol: unix.ETH_P_ALL,
		},
		Fd: w.objects.AliothFromTunnel.FD(), Name: "somebody", DirectAction: true,
	}
}

// foreigners lists the filters of foreign on one side of a device.
func foreigners(t *testing.T, d *opened, ifindex int, side uint32) (priorities []uint16) {
	t.Helper()
	list, err := d.ListFilters(ifindex, side)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if bpf, ok := f.(*netlink.BpfFilter); ok && bpf.Name == "somebody" {
			priorities = append(priorities, bpf.Priority)
		}
	}
	return priorities
}

func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func deleteDevice(t *testing.T, ifindex int) {
	t.Helper()
	Must(t, netlink.LinkDel(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}))
}

func TestProgramsTakenAwayByHandComeBackWithAThoroughLook(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name string
		harm func(ifindex int) error
	}{
		{"a filter is deleted", func(ifindex int) error {
			return netlink.FilterDel(w.Filter(hook.Attachment{Ifindex: uint32(ifindex), Program: hook.ToPod}))
		}},
		{"the qdisc is deleted", func(ifindex int) error { return netlink.QdiscDel(Clsact(ifindex)) }},
		{"a filter is given another program", func(ifindex int) error {
			f := w.Filter(hook.Attachment{Ifindex: uint32(ifindex), Program: hook.FromPod})
			f.Fd = w.objects.AliothFromTunnel.FD()
			return netlink.FilterReplace(f)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			enter(t, w.ns)
			Must(t, c.harm(w.podA))
			if left, err := w.Attached(); err != nil || len(left) == 2*5+1 {
				t.Fatalf("nothing was taken away: %v, %v", left, err)
			}
			w.Recheck()
			Must(t, w.Apply(w.state()))
			wantPrograms(t, w.opened, w.podA)
		})
	}
}

func TestADeviceWithTheIndexOfAnEarlierOneGetsItsOwnPrograms(t *testing.T) {
	w := newWorld(t)
	elsewhere := newNs(t)
	for i, c := range []struct {
		name  string
		leave func(t *testing.T, ifindex int)
	}{
		{"the earlier one is deleted", deleteDevice},
		{"the earlier one moves to another namespace", func(t *testing.T, ifindex int) {
			device := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}
			Must(t, netlink.LinkSetNsFd(device, int(elsewhere)))
		}},
		{"more devices leave than are noted", func(t *testing.T, ifindex int) {
			Must(t, w.NoteFewVanished())
			for range 10 {
				deleteDevice(t, addPair(t, "passing", "passing-peer"))
			}
			deleteDevice(t, ifindex)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			enter(t, w.ns)
			c.leave(t, w.podB)
			name := fmt.Sprintf("again%d", i)
			again := addLink(t, &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, Index: w.podB}, PeerName: name + "-peer"})
			if again != w.podB || len(attachedFilters(t)) != 2*4+1 {
				t.Fatalf("device %d is to follow %d, filters are %v", again, w.podB, attachedFilters(t))
			}
			Must(t, w.Apply(w.state()))
			wantPrograms(t, w.opened, w.podB)
		})
	}
}

// qdiscRequests tells how many requests about the qdisc of a device the kernel has granted
// since it was called. A request for one that is there counts as well.
func qdiscRequests(t *testing.T, ifindex int) (count func() int) {
	t.Helper()
	events, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_TC)
	Must(t, err)
	t.Cleanup(events.Close)
	last := addPair(t, "last", "last-peer")
	return func() (granted int) {
		t.Helper()
		Must(t, netlink.QdiscAdd(Clsact(last)))
		for {
			messages, _, err := events.Receive()
			Must(t, err)
			for _, m := range messages {
				if m.Header.Type != unix.RTM_NEWQDISC {
					continue
				}
				switch int(nl.DeserializeTcMsg(m.Data).Ifindex) {
				case last:
					return granted
				case ifindex:
					granted++
				}
			}
		}
	}
}

func TestOneRequestMakesTheQdiscOfBothPrograms(t *testing.T) {
	w := newWorld(t)
	device := addPair(t, "fresh", "fresh-peer")
	requests := qdiscRequests(t, device)
	s := w.state()
	s.Interfaces = append(s.Interfaces, state.Interface{Ifindex: device, VNI: vniRed, MAC: macR, Addrs: []netip.Addr{Ip("10.0.1.99")}})
	Must(t, w.Apply(s))
	wantPrograms(t, w.opened, device)
	if got := requests(); got != 1 {
		t.Errorf("%d requests about the qdisc, want 1", got)
	}
}

func TestAQdiscThatGoesBetweenTwoProgramsIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	device := addPair(t, "fresh", "fresh-peer")
	ingress := hook.Attachment{Ifindex: uint32(device), Program: hook.FromPod}
	Must(t, w.Attach(ingress))
	Must(t, netlink.QdiscDel(Clsact(device)))
	Must(t, w.Attach(hook.Attachment{Ifindex: uint32(device), Program: hook.ToPod}))
	Must(t, w.Attach(ingress))
	wantPrograms(t, w.opened, device)
}

func TestAnInterfaceThatComesBackKeepsItsFilter(t *testing.T) {
	w := newWorld(t)
	s := w.state()
	without := w.state()
	without.Interfaces, without.Addresses = nil, nil
	Must(t, w.Apply(without))
	if n := len(attachedFilters(t)); n != 2*5+1 {
		t.Errorf("%d programs are attached without interfaces, want all to stay", n)
	}
	Must(t, w.Apply(s))
	wantPrograms(t, w.opened, w.podA)
	wantSettled(t, w.opened, s)
}

func TestFiltersOfOthersAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	// On the first device they came later, on the second earlier than ours.
	device := addPair(t, "late", "late-peer")
	Must(t, netlink.QdiscAdd(Clsact(device)))
	for _, ifindex := range []int{w.podA, device} {
		for _, side := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
			Must(t, netlink.FilterAdd(foreign(w, ifindex, side, FilterPriority, 0)))
			Must(t, netlink.FilterAdd(foreign(w, ifindex, side, 7, 0)))
		}
	}
	s := w.state()
	s.Interfaces = append(s.Interfaces, state.Interface{Ifindex: device, VNI: vniRed, MAC: macR, Addrs: []netip.Addr{Ip("10.0.1.99")}})
	Must(t, w.Apply(s))
	Must(t, w.Close())
	again := open(t, w.cfg)
	Must(t, again.Apply(s))
	check := func(when string) {
		for _, ifindex := range []int{w.podA, device} {
			for _, side := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
				if got := foreigners(t, again, ifindex, side); len(got) != 2 {
					t.Errorf("%s device %d has filters of somebody else with priorities %v, want two", when, ifindex, got)
				}
			}
		}
	}
	wantPrograms(t, again, w.podA)
	wantPrograms(t, again, device)
	check("with ours,")
	Must(t, Uninstall(w.cfg.PinDir, w.cfg.CgroupRoot))
	if left := attachedFilters(t); len(left) != 0 {
		t.Errorf("filters are left: %v", left)
	}
	check("after uninstalling,")
}

func TestWhatIsInThePlaceOfOurFilterIsReported(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name     string
		put      func(ifindex int) error
		take     func(ifindex int) error
		complain string
	}{
		{
			name: "a filter of somebody else",
			put: func(ifindex int) error {
				return errors.Join(netlink.QdiscAdd(Clsact(ifindex)),
					netlink.FilterAdd(foreign(w, ifindex, netlink.HANDLE_MIN_INGRESS, FilterPriority, FilterHandle)))
			},
			take:     func(ifindex int) error { return netlink.QdiscDel(Clsact(ifindex)) },
			complain: "tc filter del",
		},
		{
			name: "a qdisc without an egress side",
			put: func(ifindex int) error {
				return netlink.QdiscAdd(&netlink.Ingress{QdiscAttrs: *Clsact(ifindex).Attrs()})
			},
			take:     func(ifindex int) error { return netlink.QdiscDel(Clsact(ifindex)) },
			complain: "add clsact qdisc",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			enter(t, w.ns)
			device := addPair(t, "taken", "taken-peer")
			defer deleteDevice(t, device)
			Must(t, c.put(device))
			s := w.state()
			s.Interfaces = append(s.Interfaces, state.Interface{Ifindex: device, VNI: vniRed, MAC: macR, Addrs: []netip.Addr{Ip("10.0.1.99")}})
			var failed *AttachError
			if err := w.Apply(s); !errors.As(err, &failed) || failed.Ifindex != device || !strings.Contains(err.Error(), c.complain) {
				t.Errorf("error is %v, want one of device %d with %q", err, device, c.complain)
			}
			Must(t, c.take(device))
			Must(t, w.Apply(s))
			wantPrograms(t, w.opened, device)
		})
	}
}

func TestPinnedLinksOfInterfacesAreReplacedByFilters(t *testing.T) {
	w := newWorld(t)
	if !hasTCX(t) {
		t.Skip("missing feature: TCX (Linux 6.6)")
	}
	Must(t, netlink.QdiscDel(Clsact(w.podA)))
	for _, old := range []struct {
		name    string
		ifindex int
		hook    ebpf.AttachType
	}{
		{"from_pod_a", w.podA, ebpf.AttachTCXIngress},
		{"to_pod_a", w.podA, ebpf.AttachTCXEgress},
		{"from_pod_gone", w.podB, ebpf.AttachTCXIngress},
	} {
		l, err := link.AttachTCX(link.TCXOptions{Interface: old.ifindex, Program: w.objects.AliothFromPod, Attach: old.hook})
		Must(t, err)
		Must(t, l.Pin(filepath.Join(programs.LinkDir(w.cfg.PinDir), old.name)))
		Must(t, l.Close())
	}
	deleteDevice(t, w.podB)
	Must(t, w.Close())
	again := open(t, w.cfg)
	wantPrograms(t, again, w.podA)
	if links, err := os.ReadDir(programs.LinkDir(w.cfg.PinDir)); err != nil || len(links) != pinnedLinks(t, false) {
		t.Errorf("pinned links are %v, %v, want those of the tunnel and of the sockets", links, err)
	}
}

// TestAFilterOfTheNodeFollowsItsDevice is about what stands in for links on
// kernels without TCX, and works on all others too.
func TestAFilterOfTheNodeFollowsItsDevice(t *testing.T) {
	w := newWorld(t)
	first, second := addPair(t, "first", "first-peer"), addPair(t, "second", "second-peer")
	settle := func(ifindex int) (changed bool) {
		t.Helper()
		changed, err := w.Settle(hook.Attachment{Ifindex: uint32(ifindex), Program: hook.FromUnderlay})
		Must(t, err)
		return changed
	}
	on := func() (devices []int) {
		t.Helper()
		for a := range allFilters(t) {
			if a.Program == hook.FromUnderlay {
				devices = append(devices, int(a.Ifindex))
			}
		}
		return devices
	}
	if !settle(first) || settle(first) || !slices.Equal(on(), []int{first}) {
		t.Errorf("the program is on %v, or something changed twice", on())
	}
	if !settle(second) || !slices.Equal(on(), []int{second}) {
		t.Errorf("the program is on %v, want %d alone", on(), second)
	}
	wantPrograms(t, w.opened, w.podA)
	if settle(0); len(on()) != 0 {
		t.Errorf("the program is still on %v", on())
	}
	settle(first)
	Must(t, w.Close())
	again := open(t, w.cfg)
	for a, id := range allFilters(t) {
		if a.Program == hook.FromUnderlay && id != again.ProgramID(hook.FromUnderlay) {
			t.Errorf("a new process left program %d on device %d", id, a.Ifindex)
		}
	}
	Must(t, Uninstall(w.cfg.PinDir, w.cfg.CgroupRoot))
	if left := allFilters(t); len(left) != 0 {
		t.Errorf("filters are left: %v", left)
	}
}

// TestReplacingAFilterLosesNoPacket asks and answers in step, without ever
// asking twice, while filters are replaced all the time.
func TestReplacingAFilterLosesNoPacket(t *testing.T) {
	l, red, _ := twoTenants(t, vethPair)
	n := l.nodes[0]
	server, client := udpPair(t, red[11].ns, red[10].ns, netip.AddrPortFrom(red[11].addrs[0], 9000))
	stop := make(chan struct{})
	lost := make(chan error, 1)
	go func() { lost <- pingPong(client, server, stop) }()
	var err error
	for range 500 {
		if err = n.d.ReplaceFilters(); err != nil {
			break
		}
	}
	close(stop)
	if err := errors.Join(err, <-lost); err != nil {
		t.Error(err)
	}
}
