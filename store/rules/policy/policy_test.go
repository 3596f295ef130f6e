// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/store/rows/policy"
)

func in(key string, values ...string) policy.Selector {
	return policy.Selector{{Key: key, Operator: policy.In, Values: values}}
}

// accepts is a NetworkPolicy that isolates pods for ingress, and accepts TCP 80 of pods.
func accepts(name string, subject, from policy.Selector) *policy.Policy {
	return &policy.Policy{
		Key: policy.Key{Kind: policy.NetworkPolicy, Namespace: "n", Name: name}, Tier: policy.Namespaced,
		Subject: policy.Pods{Namespace: "n", Pods: subject}, Isolates: [2]bool{policy.Ingress: true},
		Rules: [2][]policy.Rule{policy.Ingress: {{
			Action: policy.Accept, Peers: []policy.Peer{{Pods: &policy.Pods{Namespace: "n", Pods: from}}},
			Ports: []policy.Ports{{Protocol: "TCP", First: 80, Last: 80}},
		}}},
	}
}

func pod(vpc, app string) *Identity {
	return &Identity{VPC: vpc, Namespace: "n", Labels: map[string]string{"app": app}}
}

func end(ip, uid string, pod *Identity) End {
	return End{IP: netip.MustParseAddr(ip), UID: uid, Pod: pod}
}

func TestJudge_EachEnd_NamesCause(t *testing.T) {
	x := NewIndex()
	x.Put(accepts("web", in("app", "web"), in("app", "client")))
	web := end("10.0.0.1", "w", pod("red", "web"))
	isolated := &Cause{Key: policy.Key{Kind: policy.NetworkPolicy, Namespace: "n", Name: "web"}, Tier: policy.Namespaced, Rule: -1}
	rule := *isolated
	rule.Rule = 0
	for name, c := range map[string]struct {
		packet  Packet
		allowed bool
		cause   *Cause
	}{
		"a named peer":              {Packet{From: end("10.0.0.2", "c", pod("red", "client")), To: web, Protocol: "TCP", Port: 80}, true, &rule},
		"another port":              {Packet{From: end("10.0.0.2", "c", pod("red", "client")), To: web, Protocol: "TCP", Port: 81}, false, isolated},
		"the same labels elsewhere": {Packet{From: end("10.0.0.2", "c", pod("blue", "client")), To: web, Protocol: "TCP", Port: 80}, false, isolated},
		"an address outside":        {Packet{From: End{IP: netip.MustParseAddr("192.0.2.1")}, To: web, Protocol: "TCP", Port: 80}, false, isolated},
		"a probe":                   {Packet{From: End{IP: netip.MustParseAddr("192.0.2.1")}, To: web, Protocol: "TCP", Port: 81, Probe: true}, true, nil},
		"the pod itself":            {Packet{From: web, To: web, Protocol: "TCP", Port: 81}, true, nil},
		"a pod of no policy":        {Packet{From: web, To: end("10.0.0.2", "c", pod("red", "client")), Protocol: "TCP", Port: 9}, true, nil},
	} {
		got := x.Judge(&c.packet)
		same := got.Ingress.Cause == c.cause || got.Ingress.Cause != nil && c.cause != nil && *got.Ingress.Cause == *c.cause
		if got.Allowed() != c.allowed || !same || got.Egress.Cause != nil {
			t.Errorf("%s: got %+v by %+v, want %t by %+v", name, got, got.Ingress.Cause, c.allowed, c.cause)
		}
	}
}

func TestChanged_Label_OnlyItsPolicies(t *testing.T) {
	x := NewIndex()
	x.Put(accepts("web", in("app", "web"), in("app", "client")))
	x.Put(accepts("db", in("app", "db"), in("app", "web", "cron")))
	x.Put(accepts("all", nil, nil))
	x.Put(accepts("other", in("role", "x"), policy.Selector{{Key: "role", Operator: policy.Exists}}))
	for name, c := range map[string]struct {
		before, after *Identity
		want          []string
	}{
		"no change":       {pod("red", "web"), pod("red", "web"), nil},
		"web to cron":     {pod("red", "web"), pod("red", "cron"), []string{"web"}}, // both are peers of db
		"client to other": {pod("red", "client"), pod("red", "other"), []string{"web"}},
		"a new pod":       {nil, pod("red", "db"), []string{"all", "db"}},
		"another VPC":     {pod("red", "db"), pod("blue", "db"), []string{"all", "db"}},
		"another label":   {pod("red", "z"), &Identity{VPC: "red", Namespace: "n", Labels: map[string]string{"role": "x"}}, []string{"other"}},
	} {
		var got []string
		for _, p := range x.Changed(c.before, c.after) {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestIndex_DeletedPolicies_LeaveNothing(t *testing.T) {
	x := NewIndex()
	for _, name := range []string{"a", "b", "a"} {
		x.Put(accepts(name, in("app", "web", "db"), nil))
	}
	x.Delete(policy.Key{Kind: policy.NetworkPolicy, Namespace: "n", Name: "a"})
	x.Delete(policy.Key{Kind: policy.NetworkPolicy, Namespace: "n", Name: "b"})
	x.Delete(policy.Key{Kind: policy.NetworkPolicy, Namespace: "n", Name: "unknown"})
	if len(x.policies)+len(x.at) != 0 {
		t.Errorf("%d policies and %d anchors are left", len(x.policies), len(x.at))
	}
}

// TestAnchors_NarrowSelectors_OfTheirLabelsOnly: a pod without the label looks at none of them.
func TestAnchors_NarrowSelectors_OfTheirLabelsOnly(t *testing.T) {
	pods := policy.Pods{Namespace: "n", Pods: append(in("app", "a", "b"), in("role", "x")...)}
	want := anchor{condition{kind: named, key: "n"}, condition{kind: valued, key: "role", value: "x"}}
	if got := anchors(&pods); len(got) != 1 || got[0] != want {
		t.Errorf("anchors %v, want %v", got, want)
	}
}
