// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"
)

func TestAPolicyIsForTheNodesThatItSelects(t *testing.T) {
	node := Node{Name: "n1", Labels: map[string]string{"zone": "a", "cores": "8", "odd": "x"}}
	term := func(rs ...Requirement) *Affinity { return &Affinity{Terms: []Term{{Labels: rs}}} }
	named := func(operator string, names ...string) *Affinity {
		return &Affinity{Terms: []Term{{Fields: []Requirement{{"metadata.name", operator, names}}}}}
	}
	const unmet = "meets no required term"
	for _, tc := range []struct {
		name     string
		selector map[string]string
		affinity *Affinity
		why      string // "" if it is for the node
	}{
		{"nothing selects all", nil, nil, ""},
		{"a label", map[string]string{"zone": "a"}, nil, ""},
		{"another value", map[string]string{"zone": "b"}, nil, "label zone=b"},
		{"a label that is not there, empty", map[string]string{"rack": ""}, nil, "label rack="},
		{"one of two labels", map[string]string{"zone": "a", "rack": "1"}, nil, "label rack=1"},
		{"no term", nil, &Affinity{}, unmet},
		{"an empty term", nil, &Affinity{Terms: []Term{{}}}, unmet},
		{"In", nil, term(Requirement{"zone", In, []string{"b", "a"}}), ""},
		{"In others", nil, term(Requirement{"zone", In, []string{"b"}}), unmet},
		{"In of nothing", nil, term(Requirement{"rack", In, []string{""}}), unmet},
		{"NotIn", nil, term(Requirement{"zone", NotIn, []string{"a"}}), unmet},
		{"NotIn of nothing", nil, term(Requirement{"rack", NotIn, []string{"a"}}), ""},
		{"Exists", nil, term(Requirement{"zone", Exists, nil}), ""},
		{"Exists not", nil, term(Requirement{"rack", Exists, nil}), unmet},
		{"DoesNotExist", nil, term(Requirement{"rack", DoesNotExist, nil}), ""},
		{"DoesNotExist but does", nil, term(Requirement{"zone", DoesNotExist, nil}), unmet},
		{"Gt", nil, term(Requirement{"cores", Gt, []string{"7"}}), ""},
		{"Gt of the same", nil, term(Requirement{"cores", Gt, []string{"8"}}), unmet},
		{"Lt", nil, term(Requirement{"cores", Lt, []string{"9"}}), ""},
		{"Lt of the same", nil, term(Requirement{"cores", Lt, []string{"8"}}), unmet},
		{"Gt of no number", nil, term(Requirement{"odd", Gt, []string{"-1"}}), unmet},
		{"Lt of nothing", nil, term(Requirement{"rack", Lt, []string{"1"}}), unmet},
		{"a bound that is no number", nil, term(Requirement{"cores", Gt, []string{"many"}}), "needs a whole number"},
		{"two bounds", nil, term(Requirement{"cores", Gt, []string{"1", "2"}}), "needs one value"},
		{"an unknown operator", nil, term(Requirement{"zone", "Like", []string{"a"}}), "unknown operator"},
		{"all of a term", nil, term(Requirement{"zone", Exists, nil}, Requirement{"rack", Exists, nil}), unmet},
		{"one of the terms", nil, &Affinity{Terms: []Term{{Labels: []Requirement{{"rack", Exists, nil}}}, {Labels: []Requirement{{"zone", Exists, nil}}}}}, ""},
		{"its name", nil, named(In, "n1"), ""},
		{"another name", nil, named(In, "n2"), unmet},
		{"not this name", nil, named(NotIn, "n1"), unmet},
		{"two names", nil, named(In, "n1", "n2"), "one value"},
		{"another field", nil, &Affinity{Terms: []Term{{Fields: []Requirement{{"spec.x", In, []string{"n1"}}}}}}, "metadata.name"},
		{"a selector and an affinity", map[string]string{"zone": "a"}, named(In, "n2"), unmet},
	} {
		ok, why := Applies(Policy{Selector: tc.selector, Affinity: tc.affinity}, node)
		if ok != (tc.why == "") || !strings.Contains(why, tc.why) || ok && why != "" {
			t.Errorf("%s: got %v, %q, want %q", tc.name, ok, why, tc.why)
		}
	}
}

func TestTaintsKeepPoliciesAwayUnlessTolerated(t *testing.T) {
	dedicated := Taint{"dedicated", "storage", NoSchedule}
	for _, tc := range []struct {
		name        string
		taint       Taint
		tolerations []Toleration
		want        bool
	}{
		{"no toleration", dedicated, nil, false},
		{"NoExecute", Taint{"dedicated", "storage", NoExecute}, nil, false},
		{"PreferNoSchedule", Taint{"dedicated", "storage", "PreferNoSchedule"}, nil, true},
		{"a node that is not ready", Taint{"node.kubernetes.io/not-ready", "", NoExecute}, nil, true},
		{"a taint that looks like it", Taint{"node.kubernetes.io.example.com/x", "", NoExecute}, nil, false},
		{"everything", dedicated, []Toleration{{Operator: Exists}}, true},
		{"the key", dedicated, []Toleration{{Key: "dedicated", Operator: Exists}}, true},
		{"another key", dedicated, []Toleration{{Key: "gpu", Operator: Exists}}, false},
		{"the value", dedicated, []Toleration{{Key: "dedicated", Value: "storage"}}, true},
		{"the value with its operator", dedicated, []Toleration{{Key: "dedicated", Operator: Equal, Value: "storage"}}, true},
		{"another value", dedicated, []Toleration{{Key: "dedicated", Value: "gpu"}}, false},
		{"no key and no operator", dedicated, []Toleration{{}}, false},
		{"another effect", dedicated, []Toleration{{Operator: Exists, Effect: NoExecute}}, false},
		{"the effect", dedicated, []Toleration{{Operator: Exists, Effect: NoSchedule}}, true},
		{"an unknown operator", dedicated, []Toleration{{Key: "dedicated", Operator: "Gt", Value: "storage"}}, false},
	} {
		node := Node{Name: "n", Taints: []Taint{tc.taint}}
		if got, why := Applies(Policy{Tolerations: tc.tolerations}, node); got != tc.want || got != (why == "") {
			t.Errorf("%s: got %v, %q", tc.name, got, why)
		}
		if got, why := Applies(Policy{IgnoreTaints: true}, node); !got {
			t.Errorf("%s: a policy that ignores taints is kept away: %s", tc.name, why)
		}
	}
	two := Node{Name: "n", Taints: []Taint{dedicated, {"gpu", "", NoSchedule}}}
	if got, why := Applies(Policy{Tolerations: []Toleration{{Key: "dedicated", Operator: Exists}}}, two); got || !strings.Contains(why, "gpu:NoSchedule") {
		t.Errorf("one of two taints is tolerated: got %v, %q", got, why)
	}
}
