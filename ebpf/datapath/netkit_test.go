// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// netkitWorld returns a world with one more pod, which has a netkit pair.
func netkitWorld(t *testing.T) (w *world.World, device int, s state.State) {
	t.Helper()
	bpftest.NeedNetkit(t)
	w = world.New(t)
	device = bpftest.AddLink(t, bpftest.Netkit("netkit", state.VirtualMAC, bpftest.NewNamespace(t)))
	s = w.State()
	s.Interfaces = append(s.Interfaces, state.Interface{
		Ifindex: device, VNI: world.VNIRed, MAC: world.MacR, Addrs: []netip.Addr{wire.IP("10.0.1.99")}, Netkit: true,
	})
	bpftest.Must(t, w.Apply(s))
	return w, device, s
}

// onPair lists the programs that a netkit pair runs while its other end sends.
func onPair(t *testing.T, device int) (programs []ebpf.ProgramID) {
	t.Helper()
	found, err := link.QueryPrograms(link.QueryOptions{Target: device, Attach: ebpf.AttachNetkitPeer})
	bpftest.Must(t, err)
	for _, p := range found.Programs {
		programs = append(programs, p.ID)
	}
	return programs
}

// wantPair checks that a netkit pair has the current programs, and no others of
// ours.
func wantPair(t *testing.T, d *bpftest.Datapath, device int) {
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

func TestNetkitPair_Restart_KeepsProgram(t *testing.T) {
	w, device, s := netkitWorld(t)
	wantPair(t, w.Datapath, device)
	wantState(t, w.Datapath, s)
	wantSettled(t, w.Datapath, s)
	bpftest.Must(t, w.Check(s))
	before := onPair(t, device)
	bpftest.Must(t, w.Close())
	if got := onPair(t, device); !slices.Equal(got, before) {
		t.Errorf("without a process the pair has programs %v, had %v", got, before)
	}
	again := bpftest.Open(t, w.Config)
	wantPair(t, again, device)
	if got := onPair(t, device); len(got) != 1 || got[0] == before[0] {
		t.Errorf("after a restart the pair has programs %v, had %v", got, before)
	}
	wantState(t, again, s)
	bpftest.Must(t, again.Check(s))
	hooks, err := datapath.ReadHooks(w.Config.PinDir)
	bpftest.Must(t, err)
	for _, f := range hook.FiltersOf(s.Interfaces[len(s.Interfaces)-1]) {
		if !slices.Contains(hooks.Filters, f) {
			t.Errorf("%v is not among the hooks: %v", f, hooks.Filters)
		}
	}
}

func TestNetkitPair_ProgramRemoved_ComesBack(t *testing.T) {
	w, device, s := netkitWorld(t)
	bpftest.Must(t, w.LeaveNetkit(uint32(device)))
	if err := w.Check(s); !errors.Is(err, datapath.ErrDiffers) || !strings.Contains(err.Error(), "alioth_from_pod") {
		t.Errorf("without it, the check gives %v", err)
	}
	w.Recheck()
	bpftest.Must(t, w.Apply(s))
	wantPair(t, w.Datapath, device)
	if got := w.Repaired(); len(got) != 1 || got[0].Kind != datapath.RepairProgram {
		t.Errorf("repaired %v", got)
	}
	// A device that takes its index has to get its own.
	bpftest.DeleteDevice(t, device)
	fresh := bpftest.Netkit("netkit", state.VirtualMAC, bpftest.NewNamespace(t))
	fresh.Index = device
	if got := bpftest.AddLink(t, fresh); got != device {
		t.Fatalf("the device has index %d, not %d", got, device)
	}
	bpftest.Must(t, w.Apply(s))
	wantPair(t, w.Datapath, device)
}

func TestNetkitPair_ForeignPrograms_Stay(t *testing.T) {
	w, device, s := netkitWorld(t)
	foreign := w.Objects.AliothFromTunnel
	bpftest.Must(t, link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: device, Program: foreign, Attach: ebpf.AttachNetkitPeer, Anchor: link.Head(),
	}))
	theirs := onPair(t, device)[0]
	w.Recheck()
	bpftest.Must(t, w.Apply(s))
	bpftest.Must(t, w.Close())
	again := bpftest.Open(t, w.Config)
	wantPair(t, again, device)
	if got := onPair(t, device); len(got) != 2 || got[0] != theirs {
		t.Errorf("the pair has programs %v, want that of somebody else, %d, first", got, theirs)
	}
	bpftest.Must(t, datapath.Uninstall(w.Config.PinDir, w.Config.CgroupRoot))
	if got := onPair(t, device); !slices.Equal(got, []ebpf.ProgramID{theirs}) {
		t.Errorf("uninstalling left %v, want %d alone", got, theirs)
	}
	if left := attachedFilters(t); len(left) != 0 {
		t.Errorf("filters are left: %v", left)
	}
}

func TestNetkitPair_OtherDeviceKind_Reported(t *testing.T) {
	bpftest.NeedNetkit(t)
	w := world.New(t)
	s := w.State()
	s.Interfaces[0].Netkit = true
	var failed *datapath.AttachError
	if err := w.Apply(s); !errors.As(err, &failed) || failed.Ifindex != w.PodA || !strings.Contains(err.Error(), "no netkit device") {
		t.Errorf("applying gives %v", err)
	}
}
