// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
	"github.com/alioth-net/alioth/test/soak"
)

// apply executes what leads to a target.
func (m *model) apply(t *testing.T, to *target.Target) {
	t.Helper()
	steps := plan.Between(m.show(), to)
	for n, step := range steps {
		if err := m.do(step); err != nil {
			t.Fatalf("the kernel refuses step %d, %s: %v\nof %s", n, step, err, lines(steps))
		}
	}
}

func lines(steps []plan.Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "\n\t%s %+v", s, s)
	}
	return b.String()
}

// documents is how many random states each simulated host gets.
const documents = 25

func TestPlan_RandomStates_ReachedAndRestored(t *testing.T) {
	accepted, seeds := 0, soak.Or(t, 400, 80)
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 16))
		m := newModel("eth0", "eth1", "eth2", "eth3")
		for range documents {
			if round(t, seed, r, m) {
				accepted++
			}
		}
	}
	t.Logf("%d documents were accepted", accepted)
	if accepted < seeds*documents/5 {
		t.Errorf("%d documents were accepted: too few to tell anything", accepted)
	}
}

// round applies a random document, restores the former state, and applies the document again.
func round(t *testing.T, seed uint64, r *rand.Rand, m *model) bool {
	desired := randomState(r)
	before := m.show()
	to, err := target.Resolve(desired, before)
	if err != nil || !feasible(before, to) {
		return false
	}
	if !reflect.DeepEqual(before, m.show()) {
		t.Fatalf("seed %d: Resolve changed the current state", seed)
	}
	explain := func() string { return fmt.Sprintf("seed %d: %s\nfrom %s", seed, jsonOf(desired), jsonOf(before)) }
	defer func() {
		if t.Failed() {
			t.Log(explain())
		}
	}()
	m.apply(t, to)
	after := m.show()
	contains(t, after, beyond(desired, before))
	if t.Failed() {
		t.FailNow()
	}
	if again := plan.Between(after, to); len(again) > 0 {
		t.Fatalf("there is more to do after all steps:%s", lines(again))
	}
	second, err := target.Resolve(desired, after)
	if err != nil {
		t.Fatalf("the state that is can't be wanted: %v", err)
	}
	if again := plan.Between(after, second); len(again) > 0 {
		t.Fatalf("a second apply has steps:%s", lines(again))
	}
	m.restore(t, before, to)
	// A change may be undone after any of its steps.
	steps := plan.Between(before, to)
	for _, step := range steps[:r.IntN(len(steps)+1)] {
		if err := m.do(step); err != nil {
			t.Fatalf("the kernel refuses %s: %v", step, err)
		}
	}
	m.restore(t, before, to)
	m.apply(t, to)
	contains(t, m.show(), beyond(desired, before))
	return true
}

// beyond removes the virtual interfaces that are down and shall be down from a document: they
// stay, because a shown state can be applied.
func beyond(desired, before *document.State) *document.State {
	rest := *desired
	rest.Interfaces = slices.DeleteFunc(slices.Clone(desired.Interfaces), func(i document.Interface) bool {
		return i.State == document.Down && slices.ContainsFunc(before.Interfaces, func(b document.Interface) bool {
			return b.Name == i.Name && b.State == document.Down && compare.Virtual(b.Type)
		})
	})
	return &rest
}

// restore undoes what leads to a target.
func (m *model) restore(t *testing.T, before *document.State, to *target.Target) {
	t.Helper()
	var names []string
	for _, i := range to.Interfaces {
		names = append(names, i.Name)
	}
	back := target.Back(before, names)
	for n, i := range back.Interfaces { // An undo takes those that the change added by its image.
		at := slices.IndexFunc(to.Interfaces, func(other document.Interface) bool { return other.Name == i.Name })
		absent := slices.Clone(to.Interfaces[at].AltNames)
		for a := range absent {
			absent[a].State = document.Absent
		}
		back.Interfaces[n].AltNames = document.MergeAltNames(absent, i.AltNames)
	}
	m.apply(t, back)
	if restored := m.show(); yamlOf(restored) != yamlOf(before) {
		t.Fatalf("not restored:%s", changesOf(before, restored))
	}
}

func jsonOf(s *document.State) string {
	text, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func yamlOf(s *document.State) string {
	text, err := s.Format()
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// changesOf are the interfaces that differ, for people.
func changesOf(before, after *document.State) string {
	var b strings.Builder
	note := func(sign string, list, others []document.Interface) {
		for _, i := range list {
			same := func(other document.Interface) bool { return reflect.DeepEqual(i, other) }
			if !slices.ContainsFunc(others, same) {
				fmt.Fprintf(&b, "\n%s %s", sign, jsonOf(&document.State{Interfaces: []document.Interface{i}}))
			}
		}
	}
	note("-", before.Interfaces, after.Interfaces)
	note("+", after.Interfaces, before.Interfaces)
	fmt.Fprintf(&b, "\n- %s\n+ %s", jsonOf(&document.State{Routes: before.Routes}), jsonOf(&document.State{Routes: after.Routes}))
	return b.String()
}

// feasible leaves out documents whose routes the kernel refuses for lack of an address, and
// states with a tunnel whose MTU is too large for a base that got a smaller one after it:
// the kernel does not make such a tunnel anew.
func feasible(before *document.State, to *target.Target) bool {
	mtus := map[string]int{}
	for _, i := range before.Interfaces {
		mtus[i.Name] = *i.MTU
	}
	for _, i := range before.Interfaces {
		if i.VXLAN != nil && i.Base() != "" && *i.MTU > mtus[i.Base()]-overhead(i) {
			return false
		}
	}
	final := map[string]document.Interface{}
	for _, i := range append(slices.Clone(before.Interfaces), to.Interfaces...) {
		final[i.Name] = i
	}
	var all []string
	for _, i := range final {
		for _, a := range append(slices.Clone(of(i.IPv4)), of(i.IPv6)...) {
			all = append(all, a.IP)
		}
	}
	for _, route := range to.Routes {
		i := final[route.Interface]
		if route.Address != "" && !reachable(route.Address, append(slices.Clone(of(i.IPv4)), of(i.IPv6)...)) {
			return false
		}
		if route.Source != "" && !slices.Contains(all, route.Source) {
			return false
		}
	}
	return true
}

func of(ip *document.IP) []document.Address {
	if ip == nil {
		return nil
	}
	return ip.Addresses
}

// contains checks that a state has what a desired one names.
func contains(t *testing.T, state, desired *document.State) {
	t.Helper()
	is := map[string]document.Interface{}
	for _, i := range state.Interfaces {
		is[i.Name] = i
	}
	for _, want := range desired.Interfaces {
		now, there := is[want.Name]
		switch want.State {
		case document.Absent, document.Down:
			if now.Type == document.Loopback {
				continue // It stays, as it is at a boot.
			}
			if there && (compare.Virtual(now.Type) || now.State != document.Down || len(of(now.IPv4)) > 0 || len(of(now.IPv6)) > 0) {
				t.Errorf("%s is not %s: %+v", want.Name, want.State, now)
			}
		case "":
			containsInterface(t, now, want)
		}
	}
	for _, route := range desired.Routes.Config {
		there := slices.ContainsFunc(state.Routes.Config, func(r document.Route) bool { return compare.RouteMatches(route, r) })
		added := slices.ContainsFunc(desired.Routes.Config, func(r document.Route) bool { return r.State == "" && compare.RouteMatches(route, r) })
		if there != (route.State == "" || added) {
			t.Errorf("route %+v is there: %v", route, there)
		}
	}
}

func containsInterface(t *testing.T, now, want document.Interface) {
	t.Helper()
	if now.State != document.Up {
		t.Errorf("%s is not up", want.Name)
	}
	if want.IPv4 != nil {
		want.IPv4 = &document.IP{Addresses: inKernelOrder(want.IPv4.Addresses)}
	}
	for _, a := range want.AltNames {
		if has := slices.Contains(now.AltNames, document.AltName{Name: a.Name}); has == (a.State == document.Absent) {
			t.Errorf("%s has the alternative name %s: %v", want.Name, a.Name, has)
		}
	}
	want.AltNames = nil
	now.IPv4, now.IPv6 = withoutAutomatic(now.IPv4), withoutAutomatic(now.IPv6)
	a, err := target.Object(now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := target.Object(want)
	if err != nil {
		t.Fatal(err)
	}
	if why := lacks(want.Name, a, b); why != "" {
		t.Errorf("not as desired: %s", why)
	}
}

// lacks says which part of a desired value is missing. The order of ports means nothing, and
// neither does the order of addresses of IPv6.
func lacks(path string, now, want any) string {
	switch w := want.(type) {
	case map[string]any:
		n, _ := now.(map[string]any)
		for key, value := range w {
			if why := lacks(path+"."+key, n[key], value); why != "" {
				return why
			}
		}
	case []any:
		n, _ := now.([]any)
		if len(n) != len(w) {
			return fmt.Sprintf("%s: %v instead of %v", path, now, want)
		}
		for at, value := range w {
			found := slices.ContainsFunc(n, func(other any) bool { return lacks(path, other, value) == "" })
			if ordered := strings.HasSuffix(path, ".ipv4.address"); !found || ordered && lacks(path, n[at], value) != "" {
				return fmt.Sprintf("%s: %v instead of %v", path, now, want)
			}
		}
	default:
		if !reflect.DeepEqual(now, want) && fmt.Sprint(now) != fmt.Sprint(want) {
			return fmt.Sprintf("%s: %v instead of %v", path, now, want)
		}
	}
	return ""
}
