// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

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
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
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

// device is that of a program of the node.
func (w *world) device(p hook.Program) int {
	return map[hook.Program]int{
		hook.FromTunnel: w.cfg.VXLANIfindex, hook.FromUnderlay: w.cfg.Uplink(), hook.ToUnderlay: w.cfg.Uplink(), hook.Fragment: w.cfg.FragmentPeerIfindex,
	}[p]
}

// unhook takes a program of the node off its device.
func (w *world) unhook(t *testing.T, p hook.Program) error {
	if hasTCX(t) {
		return detachPinned(LinkPath(w.cfg.PinDir, string(p)))
	}
	return netlink.FilterDel(w.Filter(hook.Attachment{Ifindex: uint32(w.device(p)), Program: p}))
}

// exchange gives the hook of a program of the node another program.
func (w *world) exchange(t *testing.T, p hook.Program, other *ebpf.Program) error {
	if !hasTCX(t) {
		f := w.Filter(hook.Attachment{Ifindex: uint32(w.device(p)), Program: p})
		f.Fd = other.FD()
		return netlink.FilterReplace(f)
	}
	lnk, err := link.LoadPinnedLink(LinkPath(w.cfg.PinDir, string(p)), nil)
	if err != nil {
		return err
	}
	return errors.Join(lnk.Update(other), lnk.Close())
}

// liveLinks are the names of the pinned links that are attached, and of those
// that filters stand in for.
func liveLinks(t *testing.T, w *world) []string {
	t.Helper()
	var names []string
	filters := allFilters(t)
	for _, name := range hook.LinkNames() {
		ifindex := w.device(hook.Program(name))
		if filters[hook.Attachment{Ifindex: uint32(ifindex), Program: hook.Program(name)}] != 0 {
			names = append(names, name)
			continue
		}
		lnk, err := link.LoadPinnedLink(LinkPath(w.cfg.PinDir, name), nil)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		Must(t, err)
		attached, err := AttachedToCgroup(lnk, w.cfg.CgroupRoot)
		if ifindex != 0 {
			attached, err = AttachedTo(lnk, uint32(ifindex))
		}
		Must(t, errors.Join(err, lnk.Close()))
		if attached {
			names = append(names, name)
		}
	}
	return names
}

func TestWhatIsChangedByHandIsRepairedAndSaidOnce(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	pin := func(name string) string { return filepath.Join(w.cfg.PinDir, name) }
	for _, c := range []struct {
		name string
		harm func() error
		want []string
	}{
		{"nothing", func() error { return nil }, nil},
		{"the pin of a map is removed", func() error { return os.Remove(pin("alioth_addresses")) }, []string{RepairPin}},
		{"another map is pinned in its place", func() error {
			return PinOver(w.objects.AliothNodes, pin("alioth_addresses"))
		}, []string{RepairPin}},
		{"the pin of a link is removed", func() error { return os.Remove(LinkPath(w.cfg.PinDir, hook.Connect6)) }, []string{RepairLink}},
		{"a link is detached", func() error { return w.unhook(t, hook.FromTunnel) }, []string{RepairLink}},
		{"the uplink's link is detached", func() error { return w.unhook(t, hook.FromUnderlay) }, []string{RepairLink}},
		{"a cgroup's link is detached", func() error { return detachPinned(LinkPath(w.cfg.PinDir, hook.Connect4)) }, []string{RepairLink}},
		{"a link is given another program", func() error {
			return w.exchange(t, hook.FromTunnel, w.objects.AliothFromPod)
		}, []string{RepairLink}},
		{"a row is deleted", func() error {
			return w.objects.AliothAddresses.Delete(bpf.AliothAddressKey{Vni: vniRed, Ip: bpf.EncodeAddr(Ip("10.0.1.11"))})
		}, []string{RepairMap}},
		{"a row is changed", func() error {
			return w.objects.AliothInterfaces.Put(uint32(w.podA), bpf.AliothInterface{Vni: vniBlue})
		}, []string{RepairMap}},
		{"a row is added", func() error {
			return w.objects.AliothNodes.Put(bpf.EncodeAddr(Ip("192.0.2.66")), uint32(0))
		}, []string{RepairMap}},
		{"a range is added", func() error {
			return w.objects.AliothSubnets.Put(bpf.EncodePrefix(vniRed, netip.MustParsePrefix("10.0.1.64/26")), uint32(0))
		}, []string{RepairMap}},
		{"a range is deleted", func() error {
			return w.objects.AliothVpcRanges.Delete(bpf.EncodePrefix(vniRed, w.state().VPCs[0].Prefixes[0]))
		}, []string{RepairMap}},
		{"an interface's account of flows is deleted", func() error {
			return w.objects.AliothConnOpened.Delete(uint32(w.podA))
		}, []string{RepairMap}},
		{"a service is deleted", func() error {
			return w.objects.AliothServices.Delete(bpf.AliothServiceKey{Vip: bpf.EncodeAddr(Ip("10.96.0.10")), Port: bpf.NetworkOrder(53), Proto: state.ProtoUDP})
		}, []string{RepairMap}},
		{"a program is removed", func() error {
			return netlink.FilterDel(w.Filter(hook.Attachment{Ifindex: uint32(w.podA), Program: hook.FromPod}))
		}, []string{RepairProgram}},
	} {
		t.Run(c.name, func(t *testing.T) {
			enter(t, w.ns)
			Must(t, c.harm())
			harmed, err := w.Survey()
			Must(t, err)
			inKernel := slices.Contains(c.want, RepairMap) || slices.Contains(c.want, RepairProgram)
			if harmed != inKernel {
				t.Errorf("a survey has found harm: %v, want %v", harmed, inKernel)
			}
			if w.RecheckPins(); harmed {
				w.Recheck()
			}
			Must(t, w.Apply(w.state()))
			var kinds []string
			for _, r := range w.Repaired() {
				kinds = append(kinds, r.Kind)
			}
			if !slices.Equal(kinds, c.want) {
				t.Errorf("repaired %v, want %v", kinds, c.want)
			}
			wantState(t, w.opened, w.state())
			wantPrograms(t, w.opened, w.podA)
			if live := liveLinks(t, w); len(live) != len(hook.LinkNames()) {
				t.Errorf("of the links, %v are attached", live)
			}
			w.Recheck()
			Must(t, w.Apply(w.state()))
			if again := w.Repaired(); len(again) != 0 {
				t.Errorf("repaired once more: %v", again)
			}
		})
	}
}

// TestASurveyTakesNoChangeForHarm changes services while it looks: neither what Apply
// has just written nor what it has just taken away is harm.
func TestASurveyTakesNoChangeForHarm(t *testing.T) {
	w := newWorld(t)
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
		s := w.state()
		for n := range 20 {
			vip := netip.AddrFrom4([4]byte{10, 97, byte(turn), byte(n)})
			s.Services = append(s.Services, state.Service{
				VNI: vniRed, VIP: vip, Port: 80, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: Ip("10.0.1.11"), Port: uint16(8000 + turn)}},
			})
		}
		Must(t, w.Apply(s))
	}
	close(stop)
	Must(t, <-surveyed)
}

func TestRemovedPinsComeBackAndANewProcessAdoptsThem(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	Must(t, os.RemoveAll(w.cfg.PinDir))
	if live := liveLinks(t, w); len(live) != len(hook.LinkNames())-pinnedLinks(t, true) {
		t.Fatalf("links %v outlived their pins", live)
	}
	w.Recheck()
	Must(t, w.Apply(w.state()))
	if live := liveLinks(t, w); len(live) != len(hook.LinkNames()) {
		t.Errorf("of the links, %v are attached", live)
	}
	before, err := w.objects.AliothAddresses.Info()
	Must(t, err)
	Must(t, w.Close())
	again := open(t, w.cfg)
	after, err := again.objects.AliothAddresses.Info()
	Must(t, err)
	beforeID, _ := before.ID()
	if afterID, _ := after.ID(); beforeID != afterID {
		t.Errorf("the new process has map %d, not %d", afterID, beforeID)
	}
	wantState(t, again, w.state())
}

func TestAChangedStateIsNoRepair(t *testing.T) {
	w := newWorld(t)
	s := w.state()
	s.Addresses = s.Addresses[:len(s.Addresses)-1]
	s.Nodes = append(s.Nodes, Ip("192.0.2.77"))
	w.Recheck()
	Must(t, w.Apply(s))
	deleteDevice(t, w.podB)
	s.Interfaces = slices.DeleteFunc(s.Interfaces, func(i state.Interface) bool { return i.Ifindex == w.podB })
	s.Addresses = slices.DeleteFunc(s.Addresses, func(a state.Address) bool { return a.Ifindex == w.podB })
	w.Recheck()
	Must(t, w.Apply(s))
	if list := w.Repaired(); len(list) != 0 {
		t.Errorf("repaired: %v", list)
	}
}

func TestFlowsToBackendsThatAreGoneEndThoughADeviceFails(t *testing.T) {
	w := newWorld(t)
	run(t, w.objects.AliothFromPod, w.podA, ask(udp{Sport: 1000, Dport: 53}).bytes())
	if rows, err := flowRows(w.objects.AliothConnections); err != nil || len(rows) != 2 {
		t.Fatalf("connections are %v, %v, want two", rows, err)
	}
	s := w.state()
	s.Services[0].Backends = []state.Backend{{IP: Ip("10.8.1.11"), Port: 5353}}
	const nowhere = 1 << 30
	s.Interfaces = append(s.Interfaces, state.Interface{Ifindex: nowhere, VNI: vniRed, MAC: macR, Addrs: []netip.Addr{Ip("10.0.1.99")}})
	var attach *AttachError
	if err := w.Apply(s); !errors.As(err, &attach) || attach.Ifindex != nowhere {
		t.Fatalf("apply: %v, want an AttachError of device %d", err, nowhere)
	}
	rows, err := flowRows(w.objects.AliothConnections)
	Must(t, err)
	for key, row := range rows { // what is left is for an answer that is under way
		if key.Direction != bpf.AliothConnDirectionCONN_REVERSE {
			t.Errorf("there is still the flow %v: %v", key, row)
		}
	}
}
