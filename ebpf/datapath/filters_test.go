// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath_test

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

	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/test/soak"
)

// attachedFilters returns our filters on interfaces in the current namespace.
func attachedFilters(t *testing.T) map[hook.Attachment]ebpf.ProgramID {
	t.Helper()
	found := allFilters(t)
	maps.DeleteFunc(found, func(a hook.Attachment, _ ebpf.ProgramID) bool { return datapath.IsOnNode(a.Program) })
	return found
}

// allFilters returns these filters, and the filters that stand in for links.
func allFilters(t *testing.T) map[hook.Attachment]ebpf.ProgramID {
	t.Helper()
	found, err := datapath.Filters()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wantPrograms checks that a pod's interface has the current programs.
func wantPrograms(t *testing.T, d *bpftest.Datapath, ifindex int) {
	t.Helper()
	found := attachedFilters(t)
	for _, name := range []hook.Program{hook.FromPod, hook.ToPod} {
		if id, want := found[hook.Attachment{Ifindex: uint32(ifindex), Program: name}], d.ProgramID(name); id != want {
			t.Errorf("device %d has program %d as %s, want %d", ifindex, id, name, want)
		}
	}
}

// foreign returns a filter as another program could have attached it.
func foreign(w *world.World, ifindex int, parent uint32, priority uint16, handle uint32) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: ifindex, Parent: parent, Priority: priority, Handle: handle, Protocol: unix.ETH_P_ALL,
		},
		Fd: w.Objects.AliothFromTunnel.FD(), Name: "somebody", DirectAction: true,
	}
}

// foreigners lists the filters of foreign on one side of a device.
func foreigners(t *testing.T, d *bpftest.Datapath, ifindex int, side uint32) (priorities []uint16) {
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

func TestPrograms_RemovedByHand_ThoroughLookRestores(t *testing.T) {
	w := world.New(t)
	for _, c := range []struct {
		name string
		harm func(ifindex int) error
	}{
		{"a filter is deleted", func(ifindex int) error {
			return netlink.FilterDel(w.Filter(hook.Attachment{Ifindex: uint32(ifindex), Program: hook.ToPod}))
		}},
		{"the qdisc is deleted", func(ifindex int) error { return netlink.QdiscDel(datapath.Clsact(ifindex)) }},
		{"a filter is given another program", func(ifindex int) error {
			f := w.Filter(hook.Attachment{Ifindex: uint32(ifindex), Program: hook.FromPod})
			f.Fd = w.Objects.AliothFromTunnel.FD()
			return netlink.FilterReplace(f)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bpftest.Enter(t, w.NS)
			bpftest.Must(t, c.harm(w.PodA))
			if left, err := w.Attached(); err != nil || len(left) == 2*5+1 {
				t.Fatalf("nothing was taken away: %v, %v", left, err)
			}
			w.Recheck()
			bpftest.Must(t, w.Apply(w.State()))
			wantPrograms(t, w.Datapath, w.PodA)
		})
	}
}

func TestDevice_IndexReused_OwnProgramsAttached(t *testing.T) {
	w := world.New(t)
	elsewhere := bpftest.NewNamespace(t)
	for i, c := range []struct {
		name  string
		leave func(t testing.TB, ifindex int)
	}{
		{"the earlier one is deleted", bpftest.DeleteDevice},
		{"the earlier one moves to another namespace", func(t testing.TB, ifindex int) {
			t.Helper()
			device := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}
			bpftest.Must(t, netlink.LinkSetNsFd(device, int(elsewhere)))
		}},
		{"more devices leave than are noted", func(t testing.TB, ifindex int) {
			t.Helper()
			bpftest.Must(t, w.NoteFewVanished())
			for range 10 {
				bpftest.DeleteDevice(t, bpftest.AddPair(t, "passing", "passing-peer"))
			}
			bpftest.DeleteDevice(t, ifindex)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bpftest.Enter(t, w.NS)
			c.leave(t, w.PodB)
			name := fmt.Sprintf("again%d", i)
			again := bpftest.AddLink(t, &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, Index: w.PodB}, PeerName: name + "-peer"})
			if again != w.PodB || len(attachedFilters(t)) != 2*4+1 {
				t.Fatalf("device %d is to follow %d, filters are %v", again, w.PodB, attachedFilters(t))
			}
			bpftest.Must(t, w.Apply(w.State()))
			wantPrograms(t, w.Datapath, w.PodB)
		})
	}
}

// qdiscRequests counts the requests about the qdisc of a device that the kernel grants
// from now on. A request for one that is there counts as well.
func qdiscRequests(t *testing.T, ifindex int) (count func() int) {
	t.Helper()
	events, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_TC)
	bpftest.Must(t, err)
	t.Cleanup(events.Close)
	last := bpftest.AddPair(t, "last", "last-peer")
	return func() (granted int) {
		t.Helper()
		bpftest.Must(t, netlink.QdiscAdd(datapath.Clsact(last)))
		for {
			messages, _, err := events.Receive()
			bpftest.Must(t, err)
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

func TestQdisc_TwoPrograms_OneRequestMakesIt(t *testing.T) {
	w := world.New(t)
	device := bpftest.AddPair(t, "fresh", "fresh-peer")
	requests := qdiscRequests(t, device)
	s := w.State()
	s.Interfaces = append(s.Interfaces, state.Interface{Ifindex: device, VNI: world.VNIRed, MAC: world.MacR, Addrs: []netip.Addr{wire.IP("10.0.1.99")}})
	bpftest.Must(t, w.Apply(s))
	wantPrograms(t, w.Datapath, device)
	if got := requests(); got != 1 {
		t.Errorf("%d requests about the qdisc, want 1", got)
	}
}

func TestQdisc_GoneBetweenTwoPrograms_MadeAgain(t *testing.T) {
	w := world.New(t)
	device := bpftest.AddPair(t, "fresh", "fresh-peer")
	ingress := hook.Attachment{Ifindex: uint32(device), Program: hook.FromPod}
	bpftest.Must(t, w.Attach(ingress))
	bpftest.Must(t, netlink.QdiscDel(datapath.Clsact(device)))
	bpftest.Must(t, w.Attach(hook.Attachment{Ifindex: uint32(device), Program: hook.ToPod}))
	bpftest.Must(t, w.Attach(ingress))
	wantPrograms(t, w.Datapath, device)
}

func TestFilter_InterfaceComesBack_Kept(t *testing.T) {
	w := world.New(t)
	s := w.State()
	without := w.State()
	without.Interfaces, without.Addresses = nil, nil
	bpftest.Must(t, w.Apply(without))
	if n := len(attachedFilters(t)); n != 2*5+1 {
		t.Errorf("%d programs are attached without interfaces, want all to stay", n)
	}
	bpftest.Must(t, w.Apply(s))
	wantPrograms(t, w.Datapath, w.PodA)
	wantSettled(t, w.Datapath, s)
}

func TestFilters_ForeignOnes_LeftAlone(t *testing.T) {
	w := world.New(t)
	// On the first device they came later, on the second earlier than ours.
	device := bpftest.AddPair(t, "late", "late-peer")
	bpftest.Must(t, netlink.QdiscAdd(datapath.Clsact(device)))
	for _, ifindex := range []int{w.PodA, device} {
		for _, side := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
			bpftest.Must(t, netlink.FilterAdd(foreign(w, ifindex, side, datapath.FilterPriority, 0)))
			bpftest.Must(t, netlink.FilterAdd(foreign(w, ifindex, side, 7, 0)))
		}
	}
	s := w.State()
	s.Interfaces = append(s.Interfaces, state.Interface{Ifindex: device, VNI: world.VNIRed, MAC: world.MacR, Addrs: []netip.Addr{wire.IP("10.0.1.99")}})
	bpftest.Must(t, w.Apply(s))
	bpftest.Must(t, w.Close())
	again := bpftest.Open(t, w.Config)
	bpftest.Must(t, again.Apply(s))
	check := func(when string) {
		for _, ifindex := range []int{w.PodA, device} {
			for _, side := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
				if got := foreigners(t, again, ifindex, side); len(got) != 2 {
					t.Errorf("%s device %d has filters of somebody else with priorities %v, want two", when, ifindex, got)
				}
			}
		}
	}
	wantPrograms(t, again, w.PodA)
	wantPrograms(t, again, device)
	check("with ours,")
	bpftest.Must(t, datapath.Uninstall(w.Config.PinDir, w.Config.CgroupRoot))
	if left := attachedFilters(t); len(left) != 0 {
		t.Errorf("filters are left: %v", left)
	}
	check("after uninstalling,")
}

func TestFilter_PlaceTaken_Reported(t *testing.T) {
	w := world.New(t)
	for _, c := range []struct {
		name     string
		put      func(ifindex int) error
		take     func(ifindex int) error
		complain string
	}{
		{
			name: "a filter of somebody else",
			put: func(ifindex int) error {
				return errors.Join(netlink.QdiscAdd(datapath.Clsact(ifindex)),
					netlink.FilterAdd(foreign(w, ifindex, netlink.HANDLE_MIN_INGRESS, datapath.FilterPriority, datapath.FilterHandle)))
			},
			take:     func(ifindex int) error { return netlink.QdiscDel(datapath.Clsact(ifindex)) },
			complain: "tc filter del",
		},
		{
			name: "a qdisc without an egress side",
			put: func(ifindex int) error {
				return netlink.QdiscAdd(&netlink.Ingress{QdiscAttrs: *datapath.Clsact(ifindex).Attrs()})
			},
			take:     func(ifindex int) error { return netlink.QdiscDel(datapath.Clsact(ifindex)) },
			complain: "add clsact qdisc",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bpftest.Enter(t, w.NS)
			device := bpftest.AddPair(t, "taken", "taken-peer")
			defer bpftest.DeleteDevice(t, device)
			bpftest.Must(t, c.put(device))
			s := w.State()
			s.Interfaces = append(s.Interfaces, state.Interface{Ifindex: device, VNI: world.VNIRed, MAC: world.MacR, Addrs: []netip.Addr{wire.IP("10.0.1.99")}})
			var failed *datapath.AttachError
			if err := w.Apply(s); !errors.As(err, &failed) || failed.Ifindex != device || !strings.Contains(err.Error(), c.complain) {
				t.Errorf("error is %v, want one of device %d with %q", err, device, c.complain)
			}
			bpftest.Must(t, c.take(device))
			bpftest.Must(t, w.Apply(s))
			wantPrograms(t, w.Datapath, device)
		})
	}
}

func TestInterfaceLinks_Pinned_ReplacedByFilters(t *testing.T) {
	w := world.New(t)
	if !hasTCX(t) {
		t.Skip("missing feature: TCX (Linux 6.6)")
	}
	bpftest.Must(t, netlink.QdiscDel(datapath.Clsact(w.PodA)))
	for _, old := range []struct {
		name    string
		ifindex int
		hook    ebpf.AttachType
	}{
		{"from_pod_a", w.PodA, ebpf.AttachTCXIngress},
		{"to_pod_a", w.PodA, ebpf.AttachTCXEgress},
		{"from_pod_gone", w.PodB, ebpf.AttachTCXIngress},
	} {
		l, err := link.AttachTCX(link.TCXOptions{Interface: old.ifindex, Program: w.Objects.AliothFromPod, Attach: old.hook})
		bpftest.Must(t, err)
		bpftest.Must(t, l.Pin(filepath.Join(programs.LinkDir(w.Config.PinDir), old.name)))
		bpftest.Must(t, l.Close())
	}
	bpftest.DeleteDevice(t, w.PodB)
	bpftest.Must(t, w.Close())
	again := bpftest.Open(t, w.Config)
	wantPrograms(t, again, w.PodA)
	if links, err := os.ReadDir(programs.LinkDir(w.Config.PinDir)); err != nil || len(links) != pinnedLinks(t, false) {
		t.Errorf("pinned links are %v, %v, want those of the tunnel and of the sockets", links, err)
	}
}

// TestNodeFilter_DeviceChanges_Follows is about the filters that stand in for links on kernels
// without TCX, and works on all others too.
func TestNodeFilter_DeviceChanges_Follows(t *testing.T) {
	w := world.New(t)
	first, second := bpftest.AddPair(t, "first", "first-peer"), bpftest.AddPair(t, "second", "second-peer")
	settle := func(ifindex int) (changed bool) {
		t.Helper()
		changed, err := w.Settle(hook.Attachment{Ifindex: uint32(ifindex), Program: hook.FromUnderlay})
		bpftest.Must(t, err)
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
	wantPrograms(t, w.Datapath, w.PodA)
	if settle(0); len(on()) != 0 {
		t.Errorf("the program is still on %v", on())
	}
	settle(first)
	bpftest.Must(t, w.Close())
	again := bpftest.Open(t, w.Config)
	for a, id := range allFilters(t) {
		if a.Program == hook.FromUnderlay && id != again.ProgramID(hook.FromUnderlay) {
			t.Errorf("a new process left program %d on device %d", id, a.Ifindex)
		}
	}
	bpftest.Must(t, datapath.Uninstall(w.Config.PinDir, w.Config.CgroupRoot))
	if left := allFilters(t); len(left) != 0 {
		t.Errorf("filters are left: %v", left)
	}
}

// TestFilter_Replaced_NoPacketLost asks and answers in step, without ever
// asking twice, while filters are replaced all the time.
func TestFilter_Replaced_NoPacketLost(t *testing.T) {
	l, red, _ := lab.TwoTenants(t, lab.Veth)
	n := l.Nodes[0]
	server, client := bpftest.UdpPair(t, red[11].NS, red[10].NS, netip.AddrPortFrom(red[11].Addrs[0], 9000))
	stop := make(chan struct{})
	lost := make(chan error, 1)
	go func() { lost <- bpftest.PingPong(client, server, stop) }()
	var err error
	for range soak.Or(t, 500, 100) {
		if err = n.Datapath.ReplaceFilters(); err != nil {
			break
		}
	}
	close(stop)
	if err := errors.Join(err, <-lost); err != nil {
		t.Error(err)
	}
}
