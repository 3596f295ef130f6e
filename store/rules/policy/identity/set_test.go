// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/store/rules/policy"
)

func web(name string, number uint16) policy.Port {
	return policy.Port{Name: name, Protocol: "TCP", Port: number}
}

func pod() *policy.Identity {
	return &policy.Identity{
		VPC: "red", Namespace: "n", NamespaceLabels: map[string]string{"team": "a"},
		Labels: map[string]string{"app": "web", "tier": "front", "pod-template-hash": "5c9"},
		Ports:  []policy.Port{web("web", 80), web("admin", 81)},
	}
}

// by selects by some keys.
func by(keys ...string) func(string) bool {
	return func(key string) bool { return slices.Contains(keys, key) }
}

func first(s Set) uint32 {
	for number := range s.Numbers() {
		return number
	}
	return 0
}

func TestOf_Pod_SelectedLabelsOnly(t *testing.T) {
	s := Of(pod(), by("app", "absent"))
	if !maps.Equal(s.Labels, map[string]string{"app": "web"}) || !slices.Equal(s.Omitted, []string{"pod-template-hash", "tier"}) {
		t.Errorf("labels %v, omitted %v", s.Labels, s.Omitted)
	}
	other := pod()
	other.Labels["pod-template-hash"], other.Labels["tier"] = "777", "back"
	slices.Reverse(other.Ports)
	if same := Of(other, by("app")); same.Canonical() != s.Canonical() {
		t.Errorf("labels that no policy selects by make another set: %v and %v", same, s)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

func TestCanonical_Order_NoDifference(t *testing.T) {
	a := Set{VPC: "red", Namespace: "n", Omitted: []string{"x", "y"}, Ports: []policy.Port{web("a", 1), web("b", 2)}}
	b := Set{VPC: "red", Namespace: "n", Omitted: []string{"y", "x", "y"}, Ports: []policy.Port{web("b", 2), web("a", 1), web("b", 2)}, Labels: map[string]string{}}
	if a.Canonical() != b.Canonical() || first(a) != first(b) {
		t.Errorf("%q and %q", a.Canonical(), b.Canonical())
	}
	if !slices.Equal(b.Omitted, []string{"y", "x", "y"}) || b.Ports[0].Name != "b" {
		t.Error("the set was changed")
	}
}

// TestCanonical_SimilarSets_AllDifferent has sets whose texts are equal without lengths and counts.
func TestCanonical_SimilarSets_AllDifferent(t *testing.T) {
	base := func(change func(*Set)) Set {
		s := Set{VPC: "red", Namespace: "n", Labels: map[string]string{"a": "b"}, Omitted: []string{"c"}, Ports: []policy.Port{web("d", 80)}}
		change(&s)
		return s
	}
	seen := map[string]int{}
	for i, s := range []Set{
		base(func(*Set) {}),
		base(func(s *Set) { s.VPC, s.Namespace = "re", "dn" }),
		base(func(s *Set) { s.VPC, s.Namespace = "n", "red" }),
		base(func(s *Set) { s.Labels = map[string]string{"ab": ""} }),
		base(func(s *Set) { s.Labels = map[string]string{"": "ab"} }),
		base(func(s *Set) { s.Labels = map[string]string{"a": "b", "c": ""}; s.Omitted = nil }),
		base(func(s *Set) { s.Labels, s.Omitted = nil, []string{"a", "b", "c"} }),
		base(func(s *Set) { s.Labels, s.Omitted = nil, []string{"ab", "c"} }),
		base(func(s *Set) { s.Omitted, s.Ports = []string{"c", "d"}, nil }),
		base(func(s *Set) { s.Ports[0].Protocol = "UDP" }),
		base(func(s *Set) { s.Ports[0].Port = 8080 }),
		base(func(s *Set) { s.Ports = append(s.Ports, web("d", 81)) }),
		base(func(s *Set) { s.Ports[0].Name, s.Ports[0].Protocol = "dT", "CP" }),
	} {
		if other, ok := seen[s.Canonical()]; ok {
			t.Errorf("sets %d and %d have one form", i, other)
		}
		seen[s.Canonical()] = i
	}
}

// FuzzCanonical_AnySet_ReadBack reads the set back from its form: no two sets have one form.
func FuzzCanonical_AnySet_ReadBack(f *testing.F) {
	f.Add("red", "n", "app=web,tier=x", "c,d", "web/TCP/80")
	f.Add("", "\x00", "=,a==", ",,", "//")
	f.Fuzz(func(t *testing.T, vpc, namespace, labels, omitted, ports string) {
		s := Set{VPC: vpc, Namespace: namespace, Labels: map[string]string{}}
		for _, label := range fields(labels) {
			key, value, _ := strings.Cut(label, "=")
			s.Labels[key] = value
		}
		s.Omitted = fields(omitted)
		for _, port := range fields(ports) {
			name, rest, _ := strings.Cut(port, "/")
			protocol, number, _ := strings.Cut(rest, "/")
			s.Ports = append(s.Ports, policy.Port{Name: name, Protocol: protocol, Port: uint16(len(number))})
		}
		got := readBack(t, s.Canonical())
		if got.VPC != s.VPC || got.Namespace != s.Namespace || !maps.Equal(got.Labels, s.Labels) ||
			!slices.Equal(got.Omitted, sorted(s.Omitted)) || !slices.Equal(got.Ports, sortedPorts(s.Ports)) {
			t.Errorf("%+v is read back as %+v", s, got)
		}
	})
}

func fields(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func readBack(t *testing.T, text string) (s Set) {
	t.Helper()
	number := func() int {
		n, size := binary.Uvarint([]byte(text))
		if size <= 0 {
			t.Fatalf("no number in %q", text)
		}
		text = text[size:]
		return int(n)
	}
	next := func() (out string) {
		n := number()
		out, text = text[:n], text[n:]
		return out
	}
	s = Set{VPC: next(), Namespace: next(), Labels: map[string]string{}}
	for range number() {
		key := next()
		s.Labels[key] = next()
	}
	for range number() {
		s.Omitted = append(s.Omitted, next())
	}
	for range number() {
		s.Ports = append(s.Ports, policy.Port{Name: next(), Protocol: next(), Port: uint16(number())})
	}
	if text != "" {
		t.Fatalf("%q is left", text)
	}
	return s
}

func TestNumbers_ManySets_InRangeAndSpread(t *testing.T) {
	const sets = 5_000
	seen, second := map[uint32]bool{}, 0
	for i := range sets {
		s := Set{VPC: "red", Namespace: "n", Labels: map[string]string{"app": fmt.Sprint(i)}}
		var numbers []uint32
		for number := range s.Numbers() {
			if numbers = append(numbers, number); len(numbers) == 4 {
				break
			}
		}
		for _, number := range numbers {
			if number < First || number > Last {
				t.Fatalf("set %d has number %d", i, number)
			}
		}
		if seen[numbers[0]] {
			second++
		}
		seen[numbers[0]] = true
		if numbers[0] == numbers[1] {
			t.Errorf("set %d has number %d twice", i, numbers[0])
		}
	}
	// By chance about one of the sets meets a number of another one.
	if second > 12 {
		t.Errorf("%d of %d sets have the first number of another one", second, sets)
	}
}

// TestNumbers_KnownSets_NeverChange holds the numbers of a release: another release must choose the
// same ones.
func TestNumbers_KnownSets_NeverChange(t *testing.T) {
	for want, s := range map[uint32]Set{
		8183508: {VPC: "red", Namespace: "n"},
		3466659: Of(pod(), by("app")),
	} {
		if got := first(s); got != want {
			t.Errorf("%+v has number %d, want %d", s, got, want)
		}
	}
	if got := Name("red", 16777215); got != "red.16777215" {
		t.Errorf("name %q", got)
	}
}

func TestSuits_ChangedPod_OnlyWhatDecides(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*policy.Identity)
		selected []string
		want     bool
	}{
		"no change":                      {func(*policy.Identity) {}, []string{"app"}, true},
		"no policy selects any more":     {func(*policy.Identity) {}, nil, true},
		"an omitted value":               {func(p *policy.Identity) { p.Labels["tier"] = "back" }, []string{"app"}, true},
		"ports in another order":         {func(p *policy.Identity) { slices.Reverse(p.Ports) }, []string{"app"}, true},
		"labels of the namespace":        {func(p *policy.Identity) { p.NamespaceLabels = nil }, []string{"app"}, true},
		"an omitted key is selected by":  {func(*policy.Identity) {}, []string{"app", "tier"}, false},
		"a selected key that is absent":  {func(*policy.Identity) {}, []string{"app", "absent"}, true},
		"a label":                        {func(p *policy.Identity) { p.Labels["app"] = "db" }, []string{"app"}, false},
		"a label that is not selected":   {func(p *policy.Identity) { p.Labels["app"] = "db" }, nil, false},
		"a label less":                   {func(p *policy.Identity) { delete(p.Labels, "app") }, []string{"app"}, false},
		"an omitted key less":            {func(p *policy.Identity) { delete(p.Labels, "tier") }, []string{"app"}, false},
		"another key of the same number": {func(p *policy.Identity) { delete(p.Labels, "tier"); p.Labels["x"] = "" }, nil, false},
		"a further key":                  {func(p *policy.Identity) { p.Labels["x"] = "" }, []string{"app"}, false},
		"a port":                         {func(p *policy.Identity) { p.Ports[0].Port++ }, []string{"app"}, false},
		"the VPC":                        {func(p *policy.Identity) { p.VPC = "blue" }, []string{"app"}, false},
		"the namespace":                  {func(p *policy.Identity) { p.Namespace = "m" }, []string{"app"}, false},
	} {
		s, changed := Of(pod(), by("app")), pod()
		c.change(changed)
		if got := s.Suits(changed, by(c.selected...)); got != c.want {
			t.Errorf("%s: suits %t, want %t", name, got, c.want)
		}
		if now := Of(changed, by(c.selected...)); !now.Suits(changed, by(c.selected...)) {
			t.Errorf("%s: the pod's own set does not suit", name)
		}
	}
}

func TestCheck_Limits_EachRefused(t *testing.T) {
	labels := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprint("k", i)] = ""
		}
		return all
	}
	valid := Set{VPC: "red", Namespace: "n"}
	for name, c := range map[string]struct {
		change func(*Set)
		ok     bool
	}{
		"the longest texts": {func(s *Set) {
			s.VPC, s.Namespace = strings.Repeat("v", 63), strings.Repeat("n", 63)
			s.Labels = map[string]string{strings.Repeat("k", 317): strings.Repeat("v", 63)}
			s.Omitted = []string{strings.Repeat("o", 317)}
			s.Ports = []policy.Port{web(strings.Repeat("p", 15), 65535)}
		}, true},
		"the most labels":    {func(s *Set) { s.Labels, s.Omitted = labels(MaxLabels-1), []string{"o"} }, true},
		"too many labels":    {func(s *Set) { s.Labels, s.Omitted = labels(MaxLabels), []string{"o"} }, false},
		"no VPC":             {func(s *Set) { s.VPC = "" }, false},
		"a long namespace":   {func(s *Set) { s.Namespace = strings.Repeat("n", 64) }, false},
		"a long key":         {func(s *Set) { s.Labels = map[string]string{strings.Repeat("k", 318): ""} }, false},
		"an empty key":       {func(s *Set) { s.Omitted = []string{""} }, false},
		"a long omitted key": {func(s *Set) { s.Omitted = []string{strings.Repeat("k", 318)} }, false},
		"a long value":       {func(s *Set) { s.Labels = map[string]string{"k": strings.Repeat("v", 64)} }, false},
		"an omitted label":   {func(s *Set) { s.Labels, s.Omitted = labels(1), []string{"k0"} }, false},
		"too many ports":     {func(s *Set) { s.Ports = make([]policy.Port, MaxPorts+1) }, false},
		"a port without one": {func(s *Set) { s.Ports = []policy.Port{web("p", 0)} }, false},
		"a long port name":   {func(s *Set) { s.Ports = []policy.Port{web(strings.Repeat("p", 16), 1)} }, false},
		"another protocol":   {func(s *Set) { s.Ports = []policy.Port{{Name: "p", Protocol: "ICMP", Port: 1}} }, false},
	} {
		s := valid
		c.change(&s)
		if err := s.Check(); (err == nil) != c.ok {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
