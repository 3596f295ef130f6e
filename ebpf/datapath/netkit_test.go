// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// netkitWorld is a world with one more pod, which has a netkit pair.
func netkitWorld(t *testing.T) (w *world, device int, s state.State) {
	t.Helper()
	needNetkit(t)
	w = newWorld(t)
	device = addLink(t, netkit("netkit", state.VirtualMAC, newNs(t)))
	s = w.state()
	s.Interfaces = append(s.Interfaces, state.Interface{
		Ifindex: device, VNI: vniRed, MAC: macR, Addrs: []netip.Addr{Ip("10.0.1.99")}, Netkit: true,
	})
	Must(t, w.Apply(s))
	return w, device, s
}

// onPair lists the programs that a netkit pair runs while its other end sends.
func onPair(t *testing.T, device int) (programs []ebpf.ProgramID) {
	t.Helper()
	found, err := link.QueryPrograms(link.QueryOptions{Target: device, Attach: ebpf.AttachNetkitPeer})
	Must(t, err)
	for _, p := range found.Programs {
		programs = append(programs, p.ID)
	}
	return programs
}

// wantPair checks that a netkit pair has the current programs, and no others of
// ours.
func wantPair(t *testing.T, d *opened, device int) {
	t.Helper()
	want := map[hook.Attachment]ebpf.ProgramID{
		{Ifindex: uint32(device), Program: hook.FromNetkit}: d.ProgramID(hook.FromPod),
		{Ifindex: uint32(device), Program: hook.ToPod}:      d.ProgramID(hook.ToPod),
	}
	have := map[hook.Attachment]ebpf.ProgramID{}
	for a, id := range attachedFilters(t) {
		if a.Ifindex == uint32(device) {
			have[a] = id
		}
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("programs of the pair (-want +got):\n%s", d)
	}
}

func TestANetkitPairKeepsItsProgramThroughARestart(t *testing.T) {
	w, device, s := netkitWorld(t)
	wantPair(t, w.opened, device)
	wantState(t, w.opened, s)
	wantSettled(t, w.opened, s)
	Must(t, w.Check(s))
	before := onPair(t, device)
	Must(t, w.Close())
	if got := onPair(t, device); !slices.Equal(got, before) {
		t.Errorf("without a process the pair has programs %v, had %v", got, before)
	}
	again := open(t, w.cfg)
	wantPair(t, again, device)
	if got := onPair(t, device); len(got) != 1 || got[0] == before[0] {
		t.Errorf("after a restart the pair has programs %v, had %v", got, before)
	}
	wantState(t, again, s)
	Must(t, again.Check(s))
	hooks, err := ReadHooks(w.cfg.PinDir)
	Must(t, err)
	for _, f := range hook.FiltersOf(s.Interfaces[len(s.Interfaces)-1]) {
		if !slices.Contains(hooks.Filters, f) {
			t.Errorf("%v is not among the hooks: %v", f, hooks.Filters)
		}
	}
}

func TestTheProgramOfANetkitPairComesBack(t *testing.T) {
	w, device, s := netkitWorld(t)
	Must(t, w.LeaveNetkit(uint32(device)))
	if err := w.Check(s); !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), "alioth_from_pod") {
		t.Errorf("without it, the check gives %v", err)
	}
	w.Recheck()
	Must(t, w.Apply(s))
	wantPair(t, w.opened, device)
	if got := w.Repaired(); len(got) != 1 || got[0].Kind != RepairProgram {
		t.Errorf("repaired %v", got)
	}
	// A device that takes its index has to get its own.
	deleteDevice(t, device)
	fresh := netkit("netkit", state.VirtualMAC, newNs(t))
	fresh.Index = device
	if got := addLink(t, fresh); got != device {
		t.Fatalf("the device has index %d, not %d", got, device)
	}
	Must(t, w.Apply(s))
	wantPair(t, w.opened, device)
}

func TestProgramsOfOthersOnANetkitPairStay(t *testing.T) {
	w, device, s := netkitWorld(t)
	foreign := w.objects.AliothFromTunnel
	Must(t, link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: device, Program: foreign, Attach: ebpf.AttachNetkitPeer, Anchor: link.Head(),
	}))
	theirs := onPair(t, device)[0]
	w.Recheck()
	Must(t, w.Apply(s))
	Must(t, w.Close())
	again := open(t, w.cfg)
	wantPair(t, again, device)
	if got := onPair(t, device); len(got) != 2 || got[0] != theirs {
		t.Errorf("the pair has programs %v, want that of somebody else, %d, first", got, theirs)
	}
	Must(t, Uninstall(w.cfg.PinDir, w.cfg.CgroupRoot))
	if got := onPair(t, device); !slices.Equal(got, []ebpf.ProgramID{theirs}) {
		t.Errorf("uninstalling left %v, want %d alone", got, theirs)
	}
	if left := attachedFilters(t); len(left) != 0 {
		t.Errorf("filters are left: %v", left)
	}
}

func TestADeviceThatIsNoNetkitPairIsReported(t *testing.T) {
	needNetkit(t)
	w := newWorld(t)
	s := w.state()
	s.Interfaces[0].Netkit = true
	var failed *AttachError
	if err := w.Apply(s); !errors.As(err, &failed) || failed.Ifindex != w.podA || !strings.Contains(err.Error(), "no netkit device") {
		t.Errorf("applying gives %v", err)
	}
}
