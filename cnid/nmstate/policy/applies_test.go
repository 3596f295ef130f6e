// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// need is a requirement of a label or a field.
func need(key, operator string, values ...string) nmstate.Requirement {
	return nmstate.Requirement{Key: key, Operator: operator, Values: values}
}

func TestPolicySelector_EachNode_OnlySelectedApply(t *testing.T) {
	node := Node{Name: "n1", Labels: map[string]string{"zone": "a", "cores": "8", "odd": "x"}}
	term := func(rs ...nmstate.Requirement) *nmstate.Affinity {
		return &nmstate.Affinity{Terms: []nmstate.Term{{Labels: rs}}}
	}
	named := func(operator string, names ...string) *nmstate.Affinity {
		return &nmstate.Affinity{Terms: []nmstate.Term{{Fields: []nmstate.Requirement{need("metadata.name", operator, names...)}}}}
	}
	const unmet = "meets no required term"
	for _, tc := range []struct {
		name     string
		selector map[string]string
		affinity *nmstate.Affinity
		why      string // "" if it is for the node
	}{
		{"nothing selects all", nil, nil, ""},
		{"a label", map[string]string{"zone": "a"}, nil, ""},
		{"another value", map[string]string{"zone": "b"}, nil, "label zone=b"},
		{"a label that is not there, empty", map[string]string{"rack": ""}, nil, "label rack="},
		{"one of two labels", map[string]string{"zone": "a", "rack": "1"}, nil, "label rack=1"},
		{"no term", nil, &nmstate.Affinity{}, unmet},
		{"an empty term", nil, &nmstate.Affinity{Terms: []nmstate.Term{{}}}, unmet},
		{"In", nil, term(need("zone", In, "b", "a")), ""},
		{"In others", nil, term(need("zone", In, "b")), unmet},
		{"In of nothing", nil, term(need("rack", In, "")), unmet},
		{"NotIn", nil, term(need("zone", NotIn, "a")), unmet},
		{"NotIn of nothing", nil, term(need("rack", NotIn, "a")), ""},
		{"Exists", nil, term(need("zone", Exists)), ""},
		{"Exists not", nil, term(need("rack", Exists)), unmet},
		{"DoesNotExist", nil, term(need("rack", DoesNotExist)), ""},
		{"DoesNotExist but does", nil, term(need("zone", DoesNotExist)), unmet},
		{"Gt", nil, term(need("cores", Gt, "7")), ""},
		{"Gt of the same", nil, term(need("cores", Gt, "8")), unmet},
		{"Lt", nil, term(need("cores", Lt, "9")), ""},
		{"Lt of the same", nil, term(need("cores", Lt, "8")), unmet},
		{"Gt of no number", nil, term(need("odd", Gt, "-1")), unmet},
		{"Lt of nothing", nil, term(need("rack", Lt, "1")), unmet},
		{"a bound that is no number", nil, term(need("cores", Gt, "many")), "needs a whole number"},
		{"two bounds", nil, term(need("cores", Gt, "1", "2")), "needs one value"},
		{"an unknown operator", nil, term(need("zone", "Like", "a")), "unknown operator"},
		{"all of a term", nil, term(need("zone", Exists), need("rack", Exists)), unmet},
		{"one of the terms", nil, &nmstate.Affinity{Terms: []nmstate.Term{{Labels: []nmstate.Requirement{need("rack", Exists)}}, {Labels: []nmstate.Requirement{need("zone", Exists)}}}}, ""},
		{"its name", nil, named(In, "n1"), ""},
		{"another name", nil, named(In, "n2"), unmet},
		{"not this name", nil, named(NotIn, "n1"), unmet},
		{"two names", nil, named(In, "n1", "n2"), "one value"},
		{"another field", nil, &nmstate.Affinity{Terms: []nmstate.Term{{Fields: []nmstate.Requirement{need("spec.x", In, "n1")}}}}, "metadata.name"},
		{"a selector and an affinity", map[string]string{"zone": "a"}, named(In, "n2"), unmet},
	} {
		ok, why := Applies(nmstate.PolicySpec{Selector: tc.selector, Affinity: tc.affinity}, node)
		if ok != (tc.why == "") || !strings.Contains(why, tc.why) || ok && why != "" {
			t.Errorf("%s: got %v, %q, want %q", tc.name, ok, why, tc.why)
		}
	}
}

func TestPolicySelector_TaintedNode_AppliesOnlyIfTolerated(t *testing.T) {
	dedicated := Taint{"dedicated", "storage", NoSchedule}
	for _, tc := range []struct {
		name        string
		taint       Taint
		tolerations []nmstate.Toleration
		want        bool
	}{
		{"no toleration", dedicated, nil, false},
		{"NoExecute", Taint{"dedicated", "storage", NoExecute}, nil, false},
		{"PreferNoSchedule", Taint{"dedicated", "storage", "PreferNoSchedule"}, nil, true},
		{"a node that is not ready", Taint{"node.kubernetes.io/not-ready", "", NoExecute}, nil, true},
		{"a taint that looks like it", Taint{"node.kubernetes.io.example.com/x", "", NoExecute}, nil, false},
		{"everything", dedicated, []nmstate.Toleration{{Operator: Exists}}, true},
		{"the key", dedicated, []nmstate.Toleration{{Key: "dedicated", Operator: Exists}}, true},
		{"another key", dedicated, []nmstate.Toleration{{Key: "gpu", Operator: Exists}}, false},
		{"the value", dedicated, []nmstate.Toleration{{Key: "dedicated", Value: "storage"}}, true},
		{"the value with its operator", dedicated, []nmstate.Toleration{{Key: "dedicated", Operator: Equal, Value: "storage"}}, true},
		{"another value", dedicated, []nmstate.Toleration{{Key: "dedicated", Value: "gpu"}}, false},
		{"no key and no operator", dedicated, []nmstate.Toleration{{}}, false},
		{"another effect", dedicated, []nmstate.Toleration{{Operator: Exists, Effect: NoExecute}}, false},
		{"the effect", dedicated, []nmstate.Toleration{{Operator: Exists, Effect: NoSchedule}}, true},
		{"an unknown operator", dedicated, []nmstate.Toleration{{Key: "dedicated", Operator: "Gt", Value: "storage"}}, false},
	} {
		node := Node{Name: "n", Taints: []Taint{tc.taint}}
		if got, why := Applies(nmstate.PolicySpec{Tolerations: tc.tolerations}, node); got != tc.want || got != (why == "") {
			t.Errorf("%s: got %v, %q", tc.name, got, why)
		}
		if got, why := Applies(nmstate.PolicySpec{IgnoreTaints: true}, node); !got {
			t.Errorf("%s: a policy that ignores taints is kept away: %s", tc.name, why)
		}
	}
	two := Node{Name: "n", Taints: []Taint{dedicated, {"gpu", "", NoSchedule}}}
	if got, why := Applies(nmstate.PolicySpec{Tolerations: []nmstate.Toleration{{Key: "dedicated", Operator: Exists}}}, two); got ||
		!strings.Contains(why, "gpu:NoSchedule") {
		t.Errorf("one of two taints is tolerated: got %v, %q", got, why)
	}
}
