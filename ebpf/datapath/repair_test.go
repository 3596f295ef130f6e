// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func detachPinned(path string) error {
	lnk, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return err
	}
	defer lnk.Close()
	return lnk.Detach()
}

// unhook takes a program of the node off its device.
func unhook(t *testing.T, w *world.World, p hook.Program) error {
	if hasTCX(t) {
		return detachPinned(datapath.LinkPath(w.Config.PinDir, string(p)))
	}
	return netlink.FilterDel(w.Filter(hook.Attachment{Ifindex: uint32(w.Device(p)), Program: p}))
}

// exchange gives the hook of a program of the node another program.
func exchange(t *testing.T, w *world.World, p hook.Program, other *ebpf.Program) error {
	if !hasTCX(t) {
		f := w.Filter(hook.Attachment{Ifindex: uint32(w.Device(p)), Program: p})
		f.Fd = other.FD()
		return netlink.FilterReplace(f)
	}
	lnk, err := link.LoadPinnedLink(datapath.LinkPath(w.Config.PinDir, string(p)), nil)
	if err != nil {
		return err
	}
	return errors.Join(lnk.Update(other), lnk.Close())
}

// liveLinks returns the names of the pinned links that are attached, and of those
// that filters stand in for.
func liveLinks(t *testing.T, w *world.World) []string {
	t.Helper()
	var names []string
	filters := allFilters(t)
	for _, name := range hook.LinkNames() {
		ifindex := w.Device(hook.Program(name))
		if filters[hook.Attachment{Ifindex: uint32(ifindex), Program: hook.Program(name)}] != 0 {
			names = append(names, name)
			continue
		}
		lnk, err := link.LoadPinnedLink(datapath.LinkPath(w.Config.PinDir, name), nil)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		bpftest.Must(t, err)
		attached, err := datapath.AttachedToCgroup(lnk, w.Config.CgroupRoot)
		if ifindex != 0 {
			attached, err = datapath.AttachedTo(lnk, uint32(ifindex))
		}
		bpftest.Must(t, errors.Join(err, lnk.Close()))
		if attached {
			names = append(names, name)
		}
	}
	return names
}

func TestRepair_ChangeByHand_RepairedAndReportedOnce(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	pin := func(name string) string { return filepath.Join(w.Config.PinDir, name) }
	for _, c := range []struct {
		name string
		harm func() error
		want []string
	}{
		{"nothing", func() error { return nil }, nil},
		{"the pin of a map is removed", func() error { return os.Remove(pin("alioth_addresses")) }, []string{datapath.RepairPin}},
		{"another map is pinned in its place", func() error {
			return datapath.PinOver(w.Objects.AliothNodes, pin("alioth_addresses"))
		}, []string{datapath.RepairPin}},
		{"the pin of a link is removed", func() error { return os.Remove(datapath.LinkPath(w.Config.PinDir, hook.Connect6)) }, []string{datapath.RepairLink}},
		{"a link is detached", func() error { return unhook(t, w, hook.FromTunnel) }, []string{datapath.RepairLink}},
		{"the uplink's link is detached", func() error { return unhook(t, w, hook.FromUnderlay) }, []string{datapath.RepairLink}},
		{"a cgroup's link is detached", func() error { return detachPinned(datapath.LinkPath(w.Config.PinDir, hook.Connect4)) }, []string{datapath.RepairLink}},
		{"a link is given another program", func() error {
			return exchange(t, w, hook.FromTunnel, w.Objects.AliothFromPod)
		}, []string{datapath.RepairLink}},
		{"a row is deleted", func() error {
			return w.Objects.AliothAddresses.Delete(bpf.AliothAddressKey{Vni: world.VNIRed, Ip: bpf.EncodeAddr(wire.IP("10.0.1.11"))})
		}, []string{datapath.RepairMap}},
		{"a row is changed", func() error {
			return w.Objects.AliothInterfaces.Put(uint32(w.PodA), bpf.AliothInterface{Vni: world.VNIBlue})
		}, []string{datapath.RepairMap}},
		{"a row is added", func() error {
			return w.Objects.AliothNodes.Put(bpf.EncodeAddr(wire.IP("192.0.2.66")), uint32(0))
		}, []string{datapath.RepairMap}},
		{"a range is added", func() error {
			return w.Objects.AliothSubnets.Put(bpf.EncodePrefix(world.VNIRed, netip.MustParsePrefix("10.0.1.64/26")), uint32(0))
		}, []string{datapath.RepairMap}},
		{"a range is deleted", func() error {
			return w.Objects.AliothVpcRanges.Delete(bpf.EncodePrefix(world.VNIRed, w.State().VPCs[0].Prefixes[0]))
		}, []string{datapath.RepairMap}},
		{"an interface's account of flows is deleted", func() error {
			return w.Objects.AliothConnOpened.Delete(uint32(w.PodA))
		}, []string{datapath.RepairMap}},
		{"an interface's account of judged flows is deleted", func() error {
			return w.Objects.AliothJudgedOpened.Delete(uint32(w.PodA))
		}, []string{datapath.RepairMap}},
		{"a service is deleted", func() error {
			return w.Objects.AliothServices.Delete(bpf.AliothServiceKey{Vip: bpf.EncodeAddr(wire.IP("10.96.0.10")), Port: bpf.NetworkOrder(53), Proto: state.ProtoUDP})
		}, []string{datapath.RepairMap}},
		{"a program is removed", func() error {
			return netlink.FilterDel(w.Filter(hook.Attachment{Ifindex: uint32(w.PodA), Program: hook.FromPod}))
		}, []string{datapath.RepairProgram}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bpftest.Enter(t, w.NS)
			bpftest.Must(t, c.harm())
			harmed, err := w.Survey()
			bpftest.Must(t, err)
			inKernel := slices.Contains(c.want, datapath.RepairMap) || slices.Contains(c.want, datapath.RepairProgram)
			if harmed != inKernel {
				t.Errorf("a survey has found harm: %v, want %v", harmed, inKernel)
			}
			if w.RecheckPins(); harmed {
				w.Recheck()
			}
			bpftest.Must(t, w.Apply(w.State()))
			var kinds []string
			for _, r := range w.Repaired() {
				kinds = append(kinds, r.Kind)
			}
			if !slices.Equal(kinds, c.want) {
				t.Errorf("repaired %v, want %v", kinds, c.want)
			}
			wantState(t, w.Datapath, w.State())
			wantPrograms(t, w.Datapath, w.PodA)
			if live := liveLinks(t, w); len(live) != len(hook.LinkNames()) {
				t.Errorf("of the links, %v are attached", live)
			}
			w.Recheck()
			bpftest.Must(t, w.Apply(w.State()))
			if again := w.Repaired(); len(again) != 0 {
				t.Errorf("repaired once more: %v", again)
			}
		})
	}
}

// TestSurvey_ConcurrentChange_NotHarm changes services during a look. Neither rows that Apply has
// just written nor rows that it has just deleted count as harm.
func TestSurvey_ConcurrentChange_NotHarm(t *testing.T) {
	w := world.New(t)
	if harmed, err := w.Unapplied().Survey(); harmed || err != nil {
		t.Errorf("where nothing is known to be applied: %v, %v", harmed, err)
	}
	surveyed := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for {
			harmed, err := w.Survey()
			if harmed {
				err = errors.New("a change was taken for harm")
			}
			select {
			case <-stop:
				surveyed <- err
				return
			default:
			}
			if err != nil {
				surveyed <- err
				return
			}
		}
	}()
	for turn := range 200 {
		s := w.State()
		for n := range 20 {
			vip := netip.AddrFrom4([4]byte{10, 97, byte(turn), byte(n)})
			s.Services = append(s.Services, state.Service{
				VNI: world.VNIRed, VIP: vip, Port: 80, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: wire.IP("10.0.1.11"), Port: uint16(8000 + turn)}},
			})
		}
		bpftest.Must(t, w.Apply(s))
	}
	close(stop)
	bpftest.Must(t, <-surveyed)
}

func TestPins_Removed_ComeBackForNewProcess(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	bpftest.Must(t, os.RemoveAll(w.Config.PinDir))
	if live := liveLinks(t, w); len(live) != len(hook.LinkNames())-pinnedLinks(t, true) {
		t.Fatalf("links %v outlived their pins", live)
	}
	w.Recheck()
	bpftest.Must(t, w.Apply(w.State()))
	if live := liveLinks(t, w); len(live) != len(hook.LinkNames()) {
		t.Errorf("of the links, %v are attached", live)
	}
	before, err := w.Objects.AliothAddresses.Info()
	bpftest.Must(t, err)
	bpftest.Must(t, w.Close())
	again := bpftest.Open(t, w.Config)
	after, err := again.Objects.AliothAddresses.Info()
	bpftest.Must(t, err)
	beforeID, _ := before.ID()
	if afterID, _ := after.ID(); beforeID != afterID {
		t.Errorf("the new process has map %d, not %d", afterID, beforeID)
	}
	wantState(t, again, w.State())
}

func TestApply_ChangedState_NotReportedAsRepair(t *testing.T) {
	w := world.New(t)
	s := w.State()
	s.Addresses = s.Addresses[:len(s.Addresses)-1]
	s.Nodes = append(s.Nodes, wire.IP("192.0.2.77"))
	w.Recheck()
	bpftest.Must(t, w.Apply(s))
	bpftest.DeleteDevice(t, w.PodB)
	s.Interfaces = slices.DeleteFunc(s.Interfaces, func(i state.Interface) bool { return i.Ifindex == w.PodB })
	s.Addresses = slices.DeleteFunc(s.Addresses, func(a state.Address) bool { return a.Ifindex == w.PodB })
	w.Recheck()
	bpftest.Must(t, w.Apply(s))
	if list := w.Repaired(); len(list) != 0 {
		t.Errorf("repaired: %v", list)
	}
}

func TestFlows_BackendGoneAndDeviceFails_Ended(t *testing.T) {
	w := world.New(t)
	world.Run(t, w.Objects.AliothFromPod, w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53}).Bytes())
	if rows, err := world.FlowRows(w.Objects.AliothConnections); err != nil || len(rows) != 2 {
		t.Fatalf("connections are %v, %v, want two", rows, err)
	}
	s := w.State()
	s.Services[0].Backends = []state.Backend{{IP: wire.IP("10.8.1.11"), Port: 5353}}
	const nowhere = 1 << 30
	s.Interfaces = append(s.Interfaces, state.Interface{Ifindex: nowhere, VNI: world.VNIRed, MAC: world.MacR, Addrs: []netip.Addr{wire.IP("10.0.1.99")}})
	var attach *datapath.AttachError
	if err := w.Apply(s); !errors.As(err, &attach) || attach.Ifindex != nowhere {
		t.Fatalf("apply: %v, want an AttachError of device %d", err, nowhere)
	}
	rows, err := world.FlowRows(w.Objects.AliothConnections)
	bpftest.Must(t, err)
	for key, row := range rows { // what is left is for an answer that is under way
		if key.Direction != bpf.AliothConnDirectionCONN_REVERSE {
			t.Errorf("there is still the flow %v: %v", key, row)
		}
	}
}

// A node with IPv6 addresses only announces on the device that has them.
func TestUplink_NodeIPv6Only_DeviceWithAddressUsed(t *testing.T) {
	underlay := world.OnUnderlay(t)
	w := world.New(t, func(cfg *programs.Config) {
		underlay(cfg)
		cfg.UnderlayIfindex, cfg.TunnelSource4 = 0, netip.Addr{}
	})
	if len(liveLinks(t, w)) != len(hook.LinkNames()) {
		t.Errorf("attached are %v", liveLinks(t, w))
	}
}
