// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/state/statetest"
)

var (
	ip = netip.MustParseAddr
	px = netip.MustParsePrefix

	macA = state.MAC{2, 0, 0, 0, 0, 0xaa}
)

// steps renders a plan without its keys.
func steps(plan []Operation) []string {
	var out []string
	for _, op := range plan {
		verb := "put "
		if op.Delete {
			verb = "delete "
		}
		out = append(out, verb+op.Table)
	}
	return out
}

func TestPlan_Steps_OpenAndLoseNothing(t *testing.T) {
	withBackends := func(s state.State, b ...state.Backend) state.State {
		s.Services = []state.Service{{VIP: ip("10.96.0.1"), Port: 443, Proto: state.ProtoTCP, Backends: b}}
		return s
	}
	for _, c := range []struct {
		name       string
		have, want state.State
		steps      []string
	}{
		{
			name: "from nothing", want: statetest.Small(),
			steps: []string{
				"put closed", "put vpc_ranges", "put nodes", "put own", "put vpcs",
				"put backends", "put services", "put services",
				"put interfaces", "put flows", "put attachments", "put attachments",
				"put addresses", "put targets", "put targets", "put netns", "put subnets",
			},
		},
		{
			name: "to nothing", have: statetest.Small(),
			steps: []string{
				"delete subnets", "delete addresses", "delete targets", "delete targets", "delete netns", "delete nodes", "delete own",
				"delete services", "delete services", "delete backends",
				"delete flows", "delete interfaces",
				"delete vpcs", "delete vpc_ranges", "delete closed",
			},
		},
		{name: "to the same", have: statetest.Small(), want: statetest.Small()},
		{
			name: "a service's backends change", have: statetest.Small(),
			want: withBackends(statetest.Small(), state.Backend{IP: ip("192.0.2.3"), Port: 6443}, state.Backend{IP: ip("192.0.2.2"), Port: 6443}),
			steps: []string{
				"put backends", "put backends", "put maglev", "put maglev", "put choices", "put services", "delete backends",
			},
		},
		{
			name: "a service's backends are listed in another order",
			have: withBackends(statetest.Small(), state.Backend{IP: ip("192.0.2.3"), Port: 6443}, state.Backend{IP: ip("192.0.2.2"), Port: 6443}),
			want: withBackends(statetest.Small(), state.Backend{IP: ip("192.0.2.2"), Port: 6443}, state.Backend{IP: ip("192.0.2.3"), Port: 6443}),
		},
		{
			name: "a service's clients keep their backend from now on", have: statetest.Small(),
			want: func() state.State {
				s := statetest.Small()
				s.Services[0].Affinity = time.Hour
				return s
			}(),
			steps: []string{"put choices"},
		},
		{
			name: "a service loses all backends", have: statetest.Small(), want: withBackends(statetest.Small()),
			steps: []string{"put services", "delete backends"},
		},
		{
			name: "an address moves to another node", have: statetest.Small(),
			want: func() state.State {
				s := statetest.Small()
				s.Interfaces, s.Probes, s.Hooks, s.Namespaces = nil, nil, nil, nil
				s.Addresses = []state.Address{{VNI: 5, IP: ip("10.0.1.10"), Kind: state.Remote, Node: ip("192.0.2.2"), MAC: macA}}
				return s
			}(),
			steps: []string{"delete targets", "delete targets", "delete netns", "put addresses", "delete flows", "delete interfaces"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := compile(c.have, &Rows{})
			plan := Plan(have, compile(c.want, have))
			if d := cmp.Diff(c.steps, steps(plan)); d != "" {
				t.Errorf("steps (-want +got):\n%s", d)
			}
			if again := Plan(have, compile(c.want, have)); !cmp.Equal(plan, again, cmp.AllowUnexported(Operation{})) {
				t.Error("the same plan has another order the second time")
			}
		})
	}
}

// whole returns the complete table of a VPC with one remote address; change makes it another.
func whole(change func(*state.State)) state.State {
	s := state.State{
		VPCs:      []state.VPC{{VNI: 5, Prefixes: []netip.Prefix{px("10.0.0.0/16")}}},
		Subnets:   []state.Subnet{{VNI: 5, Prefix: px("10.0.1.0/24")}},
		Addresses: []state.Address{statetest.Remote(5, "10.0.1.20", "192.0.2.2")},
	}
	change(&s)
	return s
}

// bouncers gives the subnet a role with members, and this node a part in it.
func bouncers(here, complete bool) func(*state.State) {
	return func(s *state.State) {
		s.Roles = []state.Role{{Key: state.RoleKey{VNI: 5, ID: 1}, Members: []netip.Addr{ip("192.0.2.3")}, Here: here, Complete: complete}}
		s.Subnets[0].Role = 1
		if !here {
			s.Addresses = nil
		}
	}
}

// Between two steps no row may be missing that a packet needs: a node that drops it as unknown
// must have had all rows.
func TestPlan_RoleChanges_NoNeededRowMissing(t *testing.T) {
	unchanged := func(*state.State) {}
	incomplete := func(s *state.State) { bouncers(true, false)(s); s.Addresses = nil }
	dividers := func(s *state.State) {
		bouncers(false, false)(s)
		s.Roles[0].Key.ID, s.VPCs[0].Role, s.Subnets = 2, 2, nil
	}
	for name, c := range map[string]struct {
		have, want func(*state.State)
		steps      []string
	}{
		"bouncers come":             {unchanged, bouncers(false, false), []string{"put roles", "put subnets", "delete addresses"}},
		"bouncers go":               {bouncers(false, false), unchanged, []string{"put addresses", "put subnets", "delete roles"}},
		"a member becomes complete": {incomplete, bouncers(true, true), []string{"put addresses", "put roles"}},
		"a member starts again":     {bouncers(true, true), incomplete, []string{"put roles", "delete addresses"}},
		"a member leaves":           {bouncers(true, true), bouncers(false, false), []string{"put roles", "delete addresses"}},
		"dividers come":             {unchanged, dividers, []string{"put roles", "put vpc_ranges", "delete subnets", "delete addresses"}},
		"dividers go":               {dividers, unchanged, []string{"put addresses", "put subnets", "put vpc_ranges", "delete roles"}},
		"dividers take bouncers along": {bouncers(false, false), func(s *state.State) {
			bouncers(false, false)(s)
			s.Roles = append(s.Roles, state.Role{Key: state.RoleKey{VNI: 5, ID: 2}, Members: []netip.Addr{ip("192.0.2.4")}})
			s.VPCs[0].Role = 2
		}, []string{"put roles", "put vpc_ranges"}},
	} {
		t.Run(name, func(t *testing.T) {
			have := compile(whole(c.have), &Rows{})
			if d := cmp.Diff(c.steps, steps(Plan(have, compile(whole(c.want), have)))); d != "" {
				t.Errorf("steps (-want +got):\n%s", d)
			}
		})
	}
}

// A VPC whose egress is open has its ranges first, with dividers or without.
func TestPlan_EgressOpened_RangesFirst(t *testing.T) {
	for name, change := range map[string]func(*state.State){"without roles": func(*state.State) {}, "with bouncers": bouncers(false, false)} {
		got := steps(Plan(&Rows{}, compile(whole(change), &Rows{})))
		if ranges, vpc := slices.Index(got, "put vpc_ranges"), slices.Index(got, "put vpcs"); ranges < 0 || ranges > vpc {
			t.Errorf("%s: steps are %v", name, got)
		}
	}
}

func TestService_Changed_NoOtherIDReused(t *testing.T) {
	have := compile(statetest.Small(), &Rows{})
	// The rest of a service whose removal was interrupted counts as well.
	backendTable.of(have)[bpf.AliothBackendKey{Service: 9}] = bpf.AliothBackend{}
	have.nextID = 0 // as read from the maps
	s := statetest.Small()
	s.Services[0].Backends[0].Port = 6444
	s.Services = append(s.Services, state.Service{VIP: ip("10.96.0.2"), Port: 443, Proto: state.ProtoTCP})
	want := compile(s, have)
	var ids []uint32
	for key, row := range serviceTable.of(want) {
		if key.Port != 0 {
			ids = append(ids, row.Id)
		}
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []uint32{10, 11}) {
		t.Errorf("ids are %v, want 10 and 11", ids)
	}
}

func TestRows_ReadBack_EqualState(t *testing.T) {
	s := statetest.Small()
	s.VPCs[0].Prefixes = append(s.VPCs[0].Prefixes, px("fd10::/48"))
	s.Roles = []state.Role{
		{Key: state.RoleKey{VNI: 5, ID: 1}, Members: []netip.Addr{ip("192.0.2.2"), ip("192.0.2.3"), ip("2001:db8::2")}, Here: true, Complete: true},
		{Key: state.RoleKey{VNI: 5, ID: 7}, Here: true},
		{Key: state.RoleKey{VNI: 5, ID: 8}},
	}
	s.VPCs[0].Role = 7
	s.Subnets = append(s.Subnets, state.Subnet{VNI: 5, Prefix: px("fd10:0:0:1::/64"), Role: 1}, state.Subnet{VNI: 5, Prefix: px("0.0.0.0/0")})
	s.Interfaces[0].Addrs = append(s.Interfaces[0].Addrs, ip("fd10:0:0:1::10"))
	s.Interfaces[0].Shadow6 = ip("fd00:a110::10")
	s.Sort()
	got := compile(s, &Rows{}).State()
	if d := cmp.Diff(s, got, statetest.SameAddr); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}
}

func TestPlan_EachTable_PutAndDeletedOnce(t *testing.T) {
	seen := map[stage]int{}
	for _, s := range sequence {
		seen[s]++
	}
	for _, d := range descriptors {
		// Programs go with their device.
		late := len(d.diff(&Rows{}, compile(whole(bouncers(true, true)), &Rows{})).late)
		late += len(d.diff(&Rows{}, compile(whole(func(*state.State) {}), &Rows{})).late)
		if seen[putsOf(d)] != 1 || late > seen[lateOf(d)] || seen[deletesOf(d)] != 1 && d != attachmentsTable {
			t.Errorf("table %s is put %d times and deleted %d times", d.name(), seen[putsOf(d)], seen[deletesOf(d)])
		}
	}
	if len(byTable) != len(descriptors) {
		t.Error("two tables have one name")
	}
}

func TestEndsFlows_EachChange_FlowsWithoutBackendFound(t *testing.T) {
	serving := func(proto uint8, backends ...string) state.State {
		s := state.Service{VNI: 5, VIP: ip("10.96.0.9"), Port: 53, Proto: proto}
		for _, b := range backends {
			s.Backends = append(s.Backends, state.Backend{IP: ip(b), Port: 53})
		}
		return state.State{VPCs: []state.VPC{{VNI: 5}}, Services: []state.Service{s}}
	}
	for name, c := range map[string]struct {
		was, is state.State
		want    bool
	}{
		"a service comes":             {state.State{}, serving(state.ProtoUDP, "10.0.1.1"), false},
		"a service goes":              {serving(state.ProtoTCP, "10.0.1.1"), state.State{}, true},
		"a backend of TCP goes":       {serving(state.ProtoTCP, "10.0.1.1", "10.0.1.2"), serving(state.ProtoTCP, "10.0.1.1"), false},
		"a backend of UDP goes":       {serving(state.ProtoUDP, "10.0.1.1", "10.0.1.2"), serving(state.ProtoUDP, "10.0.1.1"), true},
		"nothing becomes another one": {serving(state.ProtoUDP, "10.0.1.1"), serving(state.ProtoUDP, "10.0.1.1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			was := compile(c.was, &Rows{})
			if got := was.EndsFlows(compile(c.is, was)); got != c.want {
				t.Errorf("flows may lead to nobody: %v", got)
			}
		})
	}
}
