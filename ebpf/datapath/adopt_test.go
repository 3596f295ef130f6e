// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

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
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/state/statetest"
	"github.com/alioth-net/alioth/ebpf/datapath/tables"
)

// SameAddr lets go-cmp compare addresses and prefixes.

// attachedIDs returns the ids of all pinned links, and those of the programs on
// links and on interfaces, as "from_pod_<ifindex>".
func attachedIDs(t *testing.T, pinDir string) (links map[string]link.ID, programs map[string]ebpf.ProgramID) {
	t.Helper()
	links, programs = map[string]link.ID{}, map[string]ebpf.ProgramID{}
	for _, name := range hook.LinkNames() {
		l, err := link.LoadPinnedLink(LinkPath(pinDir, name), nil)
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

// canonical is a state as Snapshot returns it.
func canonical(s state.State) state.State { return rowsOf(s, &tables.Rows{}).State() }

// rowsOf are the rows of a whole State.
func rowsOf(s state.State, have *tables.Rows) *tables.Rows {
	p := s.Parts()
	all := p.Everything()
	return tables.Compile(p, all.VNIs, all.Is, have)
}

func wantState(t *testing.T, d *opened, want state.State) {
	t.Helper()
	got, err := d.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(canonical(want), got, statetest.SameAddr); diff != "" {
		t.Errorf("state in the maps (-want +got):\n%s", diff)
	}
}

func wantSettled(t *testing.T, d *opened, s state.State) {
	t.Helper()
	have, err := d.ReadBack()
	Must(t, err)
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

func TestAReopenedDatapathAdoptsWhatItFinds(t *testing.T) {
	w := newWorld(t)
	s := w.state()
	s.Probes = []state.ProbeTarget{{IP: Ip("10.0.1.10"), Shadow: Ip(shadowA)}, {IP: Ip("fd10:0:0:1::10"), Shadow: Ip(ShadowA6)}}
	s.Hooks = []state.HookTarget{{IP: Ip("10.0.1.11"), Shadow: Ip("169.254.64.11")}}
	s.Namespaces = []state.Namespace{{Cookie: 4711, Shared: true, Memberships: []state.Membership{
		{VNI: s.VPCs[1].VNI, Addrs: []netip.Addr{Ip("fd10:0:0:1::10")}},
		{VNI: s.VPCs[0].VNI, Addrs: []netip.Addr{Ip("10.0.1.10")}, Ifindex: w.podA},
	}}}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	wantState(t, w.opened, s)
	wantSettled(t, w.opened, s)
	query := ask(udp{Sport: 1000, Dport: 53})
	run(t, w.objects.AliothFromPod, w.podA, query.bytes())
	before := counts(t, w.opened)
	links, programs := attachedIDs(t, w.cfg.PinDir)
	if len(links) != pinnedLinks(t, false) || len(programs) != socketLinkCount()+2+2*5+1 {
		t.Fatalf("links are %v, programs are attached to %v", links, programs)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	again := open(t, w.cfg)
	wantState(t, again, s)
	wantSettled(t, again, s)
	linksAfter, programsAfter := attachedIDs(t, w.cfg.PinDir)
	if d := cmp.Diff(links, linksAfter); d != "" {
		t.Errorf("links were attached anew (-before +after):\n%s", d)
	}
	wantReplaced(t, programs, programsAfter)
	if d := cmp.Diff(before, counts(t, again)); d != "" {
		t.Errorf("counters (-before +after):\n%s", d)
	}
	reply := answer(shadowA, udp{Sport: 5353, Dport: 1000})
	_, out, _ := run(t, again.objects.AliothToPod, w.podA, reply.bytes())
	want := reply.with(func(f *frame) { f.Src, f.Dst, f.L4 = Ip("10.96.0.10"), Ip("10.0.1.10"), udp{Sport: 53, Dport: 1000} })
	if d := cmp.Diff(want.bytes(), out); d != "" {
		t.Errorf("a flow did not survive (-want +got):\n%s", d)
	}
}

func TestMapsOfAnotherLayoutServeUntilNewOnesAreFilled(t *testing.T) {
	w := newWorld(t)
	if err := w.objects.AliothLayout.Put(uint32(0), uint32(programs.LayoutVersion+1)); err != nil {
		t.Fatal(err)
	}
	links, programs := attachedIDs(t, w.cfg.PinDir)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, w.cfg)
	if _, now := attachedIDs(t, w.cfg.PinDir); !cmp.Equal(programs, now) {
		t.Error("programs were replaced before the new maps were filled")
	}
	s := w.state()
	s.Subnets = s.Subnets[:2]
	if err := again.Apply(s); err != nil {
		t.Fatal(err)
	}
	wantState(t, again, s)
	linksAfter, programsAfter := attachedIDs(t, w.cfg.PinDir)
	if d := cmp.Diff(links, linksAfter); d != "" {
		t.Errorf("links were attached anew (-before +after):\n%s", d)
	}
	wantReplaced(t, programs, programsAfter)
	reader, err := OpenReader(w.cfg.PinDir)
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

func TestAChangedCounterLayoutKeepsTheState(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.cfg.PinDir, "alioth_counters")
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
	again := open(t, w.cfg)
	wantState(t, again, w.state())
	run(t, again.objects.AliothFromPod, w.podA, fromA(unchanged).bytes())
	reader, err := OpenReader(w.cfg.PinDir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if c, err := reader.Counters(); err != nil || len(c) != 1 {
		t.Errorf("pinned counters are %v, %v", c, err)
	}
}

func TestMapsOfAnUnfinishedOpenAreNotAdopted(t *testing.T) {
	w := newWorld(t)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(w.cfg.PinDir, bpf.LayoutMap)); err != nil {
		t.Fatal(err)
	}
	again := open(t, w.cfg)
	if err := again.Apply(w.state()); err != nil {
		t.Fatal(err)
	}
	wantState(t, again, w.state())
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	wantState(t, open(t, w.cfg), w.state())
}

func TestTheProgramsOfAVanishedDeviceAreForgotten(t *testing.T) {
	w := newWorld(t)
	device, err := netlink.LinkByIndex(w.podB)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkDel(device); err != nil {
		t.Fatal(err)
	}
	gone := w.podB
	s := w.state()
	// The plan has not heard of it yet: the rest must not suffer.
	s.Nodes = append(s.Nodes, Ip("192.0.2.3"))
	var failed *AttachError
	if err := w.Apply(s); !errors.As(err, &failed) || failed.Ifindex != gone {
		t.Errorf("applying a vanished device gives %v", err)
	}
	wantState(t, w.opened, s)
	s.Interfaces = slices.DeleteFunc(s.Interfaces, func(i state.Interface) bool { return i.Ifindex == gone })
	s.Addresses = slices.DeleteFunc(s.Addresses, func(a state.Address) bool { return a.Ifindex == gone })
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	wantState(t, w.opened, s)
	wantSettled(t, w.opened, s)
}

func TestADeviceThatStaysBehindIsShut(t *testing.T) {
	onEveryDevice(t, testADeviceThatStaysBehindIsShut)
}

func testADeviceThatStaysBehindIsShut(t *testing.T, device podDevice) {
	l, red, _ := twoTenants(t, device)
	n := l.nodes[0]
	s := n.state
	s.Interfaces = s.Interfaces[1:]
	s.Addresses = slices.DeleteFunc(slices.Clone(s.Addresses), func(a state.Address) bool { return a.Ifindex == red[10].ifindex })
	in(t, n.ns, func() {
		if err := n.d.Apply(s); err != nil {
			t.Fatal(err)
		}
	})
	before := counts(t, n.d)
	if ping(t, red[10].ns, outsideAddrs[0], 56, shyness) || ping(t, red[10].ns, red[11].addrs[0], 56, shyness) {
		t.Error("an interface without a row reached something")
	}
	// One question for the gateway's MAC may stand for both.
	if added(before, counts(t, n.d))["from_pod/unknown_interface"] == 0 {
		t.Error("its packets were not counted")
	}
}

func TestUninstallLeavesNothing(t *testing.T) {
	w := newWorld(t)
	// The datapath stays open: what another process holds must go as well.
	if err := Uninstall(w.cfg.PinDir, w.cfg.CgroupRoot); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(w.cfg.PinDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("pin directory is still there: %v", err)
	}
	qdiscs, err := netlink.QdiscList(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range qdiscs {
		if q.Type() == ClsactKind {
			t.Errorf("left on a device: %v", q)
		}
	}
	if hasTCX(t) {
		found, err := link.QueryPrograms(link.QueryOptions{Target: w.cfg.VXLANIfindex, Attach: ebpf.AttachTCXIngress})
		Must(t, err)
		if len(found.Programs) != 0 {
			t.Errorf("programs left on the tunnel's device: %v", found.Programs)
		}
	}
	if err := Uninstall(w.cfg.PinDir, w.cfg.CgroupRoot); err != nil {
		t.Errorf("uninstalling nothing: %v", err)
	}
}

func TestOpenRefusesAPinDirectoryThatIsNotBPF(t *testing.T) {
	inNetns(t)
	_, err := programs.Load(programs.Config{PinDir: filepath.Join(t.TempDir(), "pins"), VXLANIfindex: 1})
	if err == nil || !strings.Contains(err.Error(), "mount -t bpf") {
		t.Errorf("error is %v, want one that says how to mount", err)
	}
}

// TestReplacingTheProgramsLosesNoPacket asks and answers in step, without ever
// asking twice, while the datapath is reopened again and again.
func TestReplacingTheProgramsLosesNoPacket(t *testing.T) {
	onEveryDevice(t, testReplacingTheProgramsLosesNoPacket)
}

func testReplacingTheProgramsLosesNoPacket(t *testing.T, device podDevice) {
	l, red, _ := twoTenants(t, device)
	n := l.nodes[0]
	dst := netip.AddrPortFrom(red[20].addrs[0], 9000)
	server, client := udpPair(t, red[20].ns, red[10].ns, dst)
	stop := make(chan struct{})
	lost := make(chan error, 1)
	go func() { lost <- pingPong(client, server, stop) }()
	var err error
	in(t, n.ns, func() {
		for range 3 {
			next, openErr := openOnce(t, n.cfg)
			if err = openErr; err != nil {
				return
			}
			if err = errors.Join(next.Apply(n.state), next.Close()); err != nil {
				return
			}
		}
	})
	close(stop)
	if err := errors.Join(err, <-lost); err != nil {
		t.Error(err)
	}
}

func TestConnectionsDatedByThePrograms(t *testing.T) {
	w := newWorld(t)
	before := monotonic(t)
	run(t, w.objects.AliothFromPod, w.podA, ask(udp{Sport: 1000, Dport: 53}).bytes())
	rows, err := flowRows(w.objects.AliothConnections)
	if err != nil || len(rows) != 2 {
		t.Fatalf("connections are %v, %v, want two", rows, err)
	}
	for key, row := range rows {
		if at := time.Duration(row.LastSeen); at < before || at > monotonic(t) {
			t.Errorf("%v was seen at %v, not after %v", key, at, before)
		}
	}
}
