// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/state/statetest"
	"github.com/alioth-net/alioth/ebpf/datapath/tables"
	"github.com/alioth-net/alioth/test/soak"
)

// SameAddr lets go-cmp compare addresses and prefixes.

// attachedIDs returns the ids of all pinned links, and the ids of the programs on links and on
// interfaces, as "from_pod_<ifindex>".
func attachedIDs(t *testing.T, pinDir string) (links map[string]link.ID, programs map[string]ebpf.ProgramID) {
	t.Helper()
	links, programs = map[string]link.ID{}, map[string]ebpf.ProgramID{}
	for _, name := range hook.LinkNames() {
		l, err := link.LoadPinnedLink(datapath.LinkPath(pinDir, name), nil)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := l.Info()
		if err != nil {
			t.Fatal(err)
		}
		links[name], programs[name] = info.ID, info.Program
		l.Close()
	}
	for a, id := range allFilters(t) {
		programs[fmt.Sprintf("%s_%d", a.Program, a.Ifindex)] = id
	}
	return links, programs
}

// canonical returns a state as Snapshot returns it.
func canonical(s state.State) state.State { return rowsOf(s, &tables.Rows{}).State() }

// rowsOf returns the rows of a whole State.
func rowsOf(s state.State, have *tables.Rows) *tables.Rows {
	p := s.Parts()
	all := p.Everything()
	return tables.Compile(p, all.VNIs, all.Is, have)
}

func wantState(t *testing.T, d *bpftest.Datapath, want state.State) {
	t.Helper()
	got, err := d.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(canonical(want), got, statetest.SameAddr); diff != "" {
		t.Errorf("state in the maps (-want +got):\n%s", diff)
	}
}

func wantSettled(t *testing.T, d *bpftest.Datapath, s state.State) {
	t.Helper()
	have, err := d.ReadBack()
	bpftest.Must(t, err)
	if plan := tables.Plan(have, rowsOf(s, have)); len(plan) != 0 {
		t.Errorf("the applied state leaves steps to take: %v", plan)
	}
}

// wantReplaced checks that every hook has another program than before.
func wantReplaced(t *testing.T, before, after map[string]ebpf.ProgramID) {
	t.Helper()
	if len(before) != len(after) {
		t.Errorf("programs are attached to %v, before to %v", after, before)
	}
	for name, id := range after {
		if id == before[name] || before[name] == 0 || id == 0 {
			t.Errorf("the program of %s was not replaced: %d, then %d", name, before[name], id)
		}
	}
}

func TestDatapath_Reopened_AdoptsPinnedObjects(t *testing.T) {
	w := world.New(t)
	s := w.State()
	s.Probes = []state.ProbeTarget{{IP: wire.IP("10.0.1.10"), Shadow: wire.IP(world.ShadowA)}, {IP: wire.IP("fd10:0:0:1::10"), Shadow: wire.IP(world.ShadowA6)}}
	s.Hooks = []state.HookTarget{{IP: wire.IP("10.0.1.11"), Shadow: wire.IP("169.254.64.11")}}
	s.Namespaces = []state.Namespace{{Cookie: 4711, Shared: true, Memberships: []state.Membership{
		{VNI: s.VPCs[1].VNI, Addrs: []netip.Addr{wire.IP("fd10:0:0:1::10")}},
		{VNI: s.VPCs[0].VNI, Addrs: []netip.Addr{wire.IP("10.0.1.10")}, Ifindex: w.PodA},
	}}}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	wantState(t, w.Datapath, s)
	wantSettled(t, w.Datapath, s)
	query := world.Ask(wire.UDP{Sport: 1000, Dport: 53})
	world.Run(t, w.Objects.AliothFromPod, w.PodA, query.Bytes())
	before := bpftest.Counts(t, w.Datapath)
	links, programs := attachedIDs(t, w.Config.PinDir)
	if len(links) != pinnedLinks(t, false) || len(programs) != socketLinkCount()+2+2*5+1 {
		t.Fatalf("links are %v, programs are attached to %v", links, programs)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	again := bpftest.Open(t, w.Config)
	wantState(t, again, s)
	wantSettled(t, again, s)
	linksAfter, programsAfter := attachedIDs(t, w.Config.PinDir)
	if d := cmp.Diff(links, linksAfter); d != "" {
		t.Errorf("links were attached anew (-before +after):\n%s", d)
	}
	wantReplaced(t, programs, programsAfter)
	if d := cmp.Diff(before, bpftest.Counts(t, again)); d != "" {
		t.Errorf("counters (-before +after):\n%s", d)
	}
	reply := world.Answer(world.ShadowA, wire.UDP{Sport: 5353, Dport: 1000})
	_, out, _ := world.Run(t, again.Objects.AliothToPod, w.PodA, reply.Bytes())
	want := reply.With(func(f *wire.Frame) {
		f.Src, f.Dst, f.L4 = wire.IP("10.96.0.10"), wire.IP("10.0.1.10"), wire.UDP{Sport: 53, Dport: 1000}
	})
	if d := cmp.Diff(want.Bytes(), out); d != "" {
		t.Errorf("a flow did not survive (-want +got):\n%s", d)
	}
}

func TestMaps_OtherLayout_ServeUntilNewOnesFilled(t *testing.T) {
	w := world.New(t)
	if err := w.Objects.AliothLayout.Put(uint32(0), uint32(programs.LayoutVersion+1)); err != nil {
		t.Fatal(err)
	}
	links, programs := attachedIDs(t, w.Config.PinDir)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	again := bpftest.Open(t, w.Config)
	if _, now := attachedIDs(t, w.Config.PinDir); !cmp.Equal(programs, now) {
		t.Error("programs were replaced before the new maps were filled")
	}
	s := w.State()
	s.Subnets = s.Subnets[:2]
	if err := again.Apply(s); err != nil {
		t.Fatal(err)
	}
	wantState(t, again, s)
	linksAfter, programsAfter := attachedIDs(t, w.Config.PinDir)
	if d := cmp.Diff(links, linksAfter); d != "" {
		t.Errorf("links were attached anew (-before +after):\n%s", d)
	}
	wantReplaced(t, programs, programsAfter)
	reader, err := datapath.OpenReader(w.Config.PinDir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	pinned, err := reader.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(canonical(s), pinned, statetest.SameAddr); d != "" {
		t.Errorf("pinned state (-want +got):\n%s", d)
	}
}

func TestDatapath_CounterLayoutChanged_StateKept(t *testing.T) {
	w := world.New(t)
	path := filepath.Join(w.Config.PinDir, "alioth_counters")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	old, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 16, MaxEntries: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := old.Pin(path); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	again := bpftest.Open(t, w.Config)
	wantState(t, again, w.State())
	world.Run(t, again.Objects.AliothFromPod, w.PodA, world.FromA(world.Unchanged).Bytes())
	reader, err := datapath.OpenReader(w.Config.PinDir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if c, err := reader.Counters(); err != nil || len(c) != 1 {
		t.Errorf("pinned counters are %v, %v", c, err)
	}
}

// An earlier release has pinned no maps of network policies.
func TestDatapath_MapsOfPoliciesMissing_StateKept(t *testing.T) {
	w := world.New(t)
	world.Run(t, w.Objects.AliothFromPod, w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53}).Bytes())
	for name := range bpf.Pinnable(w.Objects) {
		for _, prefix := range []string{"guards", "identities", "policy_", "epochs", "judged"} {
			if strings.HasPrefix(name, bpf.Prefix+prefix) {
				bpftest.Must(t, os.Remove(filepath.Join(w.Config.PinDir, name)))
			}
		}
	}
	bpftest.Must(t, w.Close())
	again := bpftest.Open(t, w.Config)
	wantState(t, again, w.State())
	if rows, err := world.FlowRows(again.Objects.AliothConnections); err != nil || len(rows) != 2 {
		t.Errorf("connections are %v, %v, want two", rows, err)
	}
	bpftest.Must(t, again.Apply(w.State()))
	var opened uint32
	bpftest.Must(t, again.Objects.AliothJudgedOpened.Lookup(uint32(w.PodA), &opened))
	for _, name := range []string{bpf.JudgedMap, bpf.PolicyHitsMap} {
		if _, err := os.Stat(filepath.Join(w.Config.PinDir, name)); err != nil {
			t.Errorf("the map is not pinned: %v", err)
		}
	}
}

func TestMaps_UnfinishedOpen_NotAdopted(t *testing.T) {
	w := world.New(t)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(w.Config.PinDir, bpf.LayoutMap)); err != nil {
		t.Fatal(err)
	}
	again := bpftest.Open(t, w.Config)
	if err := again.Apply(w.State()); err != nil {
		t.Fatal(err)
	}
	wantState(t, again, w.State())
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	wantState(t, bpftest.Open(t, w.Config), w.State())
}

func TestDevice_Vanished_RestAppliedThenForgotten(t *testing.T) {
	w := world.New(t)
	device, err := netlink.LinkByIndex(w.PodB)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkDel(device); err != nil {
		t.Fatal(err)
	}
	gone := w.PodB
	s := w.State()
	// The plan has not heard of it yet: the rest must not suffer.
	s.Nodes = append(s.Nodes, wire.IP("192.0.2.3"))
	var failed *datapath.AttachError
	if err := w.Apply(s); !errors.As(err, &failed) || failed.Ifindex != gone {
		t.Errorf("applying a vanished device gives %v", err)
	}
	wantState(t, w.Datapath, s)
	s.Interfaces = slices.DeleteFunc(s.Interfaces, func(i state.Interface) bool { return i.Ifindex == gone })
	s.Addresses = slices.DeleteFunc(s.Addresses, func(a state.Address) bool { return a.Ifindex == gone })
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	wantState(t, w.Datapath, s)
	wantSettled(t, w.Datapath, s)
}

func TestDevice_LeftBehind_Shut(t *testing.T) {
	lab.OnEveryDevice(t, testDeviceLeftBehindShut)
}

func testDeviceLeftBehindShut(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	n := l.Nodes[0]
	s := n.State
	s.Interfaces = s.Interfaces[1:]
	s.Addresses = slices.DeleteFunc(slices.Clone(s.Addresses), func(a state.Address) bool { return a.Ifindex == red[10].Ifindex })
	bpftest.In(t, n.NS, func() {
		if err := n.Datapath.Apply(s); err != nil {
			t.Fatal(err)
		}
	})
	before := bpftest.Counts(t, n.Datapath)
	if bpftest.Ping(t, red[10].NS, lab.OutsideAddrs[0], 56, bpftest.Shyness) || bpftest.Ping(t, red[10].NS, red[11].Addrs[0], 56, bpftest.Shyness) {
		t.Error("an interface without a row reached something")
	}
	// One question for the gateway's MAC may stand for both.
	if bpftest.Added(before, bpftest.Counts(t, n.Datapath))["from_pod/unknown_interface"] == 0 {
		t.Error("its packets were not counted")
	}
}

func TestUninstall_AppliedState_NothingLeft(t *testing.T) {
	w := world.New(t)
	// The datapath stays open: what another process holds must go as well.
	if err := datapath.Uninstall(w.Config.PinDir, w.Config.CgroupRoot); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(w.Config.PinDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("pin directory is still there: %v", err)
	}
	qdiscs, err := netlink.QdiscList(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range qdiscs {
		if q.Type() == datapath.ClsactKind {
			t.Errorf("left on a device: %v", q)
		}
	}
	if hasTCX(t) {
		found, err := link.QueryPrograms(link.QueryOptions{Target: w.Config.VXLANIfindex, Attach: ebpf.AttachTCXIngress})
		bpftest.Must(t, err)
		if len(found.Programs) != 0 {
			t.Errorf("programs left on the tunnel's device: %v", found.Programs)
		}
	}
	if err := datapath.Uninstall(w.Config.PinDir, w.Config.CgroupRoot); err != nil {
		t.Errorf("uninstalling nothing: %v", err)
	}
}

func TestOpen_PinDirectoryNotBPF_Refused(t *testing.T) {
	bpftest.InNamespace(t)
	_, err := programs.Load(programs.Config{PinDir: filepath.Join(t.TempDir(), "pins"), VXLANIfindex: 1})
	if err == nil || !strings.Contains(err.Error(), "mount -t bpf") {
		t.Errorf("error is %v, want one that says how to mount", err)
	}
}

// TestPrograms_Replaced_NoPacketLost asks and answers in step, without ever
// asking twice, while the datapath is reopened again and again.
func TestPrograms_Replaced_NoPacketLost(t *testing.T) {
	lab.OnEveryDevice(t, testProgramsReplacedNoPacketLost)
}

func testProgramsReplacedNoPacketLost(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	n := l.Nodes[0]
	dst := netip.AddrPortFrom(red[20].Addrs[0], 9000)
	server, client := bpftest.UdpPair(t, red[20].NS, red[10].NS, dst)
	stop := make(chan struct{})
	lost := make(chan error, 1)
	go func() { lost <- bpftest.PingPong(client, server, stop) }()
	var err error
	bpftest.In(t, n.NS, func() {
		for range soak.Or(t, 3, 1) {
			next, openErr := bpftest.OpenOnce(t, n.Config)
			if err = openErr; err != nil {
				return
			}
			if err = errors.Join(next.Apply(n.State), next.Close()); err != nil {
				return
			}
		}
	})
	close(stop)
	if err := errors.Join(err, <-lost); err != nil {
		t.Error(err)
	}
}

func TestConnection_ProgramWritesRow_DatedByMonotonicClock(t *testing.T) {
	w := world.New(t)
	before := world.Monotonic(t)
	world.Run(t, w.Objects.AliothFromPod, w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53}).Bytes())
	rows, err := world.FlowRows(w.Objects.AliothConnections)
	if err != nil || len(rows) != 2 {
		t.Fatalf("connections are %v, %v, want two", rows, err)
	}
	for key, row := range rows {
		if at := time.Duration(row.LastSeen); at < before || at > world.Monotonic(t) {
			t.Errorf("%v was seen at %v, not after %v", key, at, before)
		}
	}
}
