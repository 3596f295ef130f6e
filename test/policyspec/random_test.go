// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyspec_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/store/kinds/policies"
	"github.com/alioth-net/alioth/store/rows/policy"
	rules "github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/test/policyspec"
	"github.com/alioth-net/alioth/test/soak"
)

const packetsOfWorld = 120

// TestJudge_RandomWorlds_LikeSpecification compares the judgement with the evaluator.
func TestJudge_RandomWorlds_LikeSpecification(t *testing.T) {
	eachWorld(t, func(t *testing.T, m maker) {
		w, pods := m.world(), m.pods()
		index := indexOf(m, rowsOf(t, w))
		for range packetsOfWorld {
			compare(t, w, index, m.packet(pods))
		}
	})
}

// TestChanged_RandomLabels_WithoutThemNothingChanges takes away the policies that a changed pod
// changes. By the evaluator no other policy treats the pod differently.
func TestChanged_RandomLabels_WithoutThemNothingChanges(t *testing.T) {
	eachWorld(t, func(t *testing.T, m maker) {
		w, pods := m.world(), m.pods()
		before, after := pods[0], m.relabelled(pods[0])
		changed := indexOf(m, rowsOf(t, w)).Changed(identity(w, &before), identity(w, &after))
		rest := without(w, changed)
		for range packetsOfWorld {
			p := m.packet(pods)
			if p.To.Pod == before.Pod {
				p.To.Labels = before.Labels
			}
			was, by := rest.Evaluate(p)
			for _, end := range []*policyspec.End{&p.From, &p.To} {
				if end.Pod == before.Pod {
					end.Labels = after.Labels
				}
			}
			if is, now := rest.Evaluate(p); was != is || by != now {
				t.Fatalf("%+v was %t by %v, and is %t by %v, with policies that do not change", p, was, by, is, now)
			}
		}
	})
}

// eachWorld runs a test with many random worlds, each named by its seed.
func eachWorld(t *testing.T, test func(*testing.T, maker)) {
	seed, count := soak.Worlds(t, 10_000, 2_000)
	for i := range uint64(count) {
		t.Run(soak.World(seed+i), func(t *testing.T) {
			test(t, newMaker(seed+i))
		})
	}
}

func newMaker(seed uint64) maker { return maker{rand.New(rand.NewPCG(seed, 45))} }

// rowsOf converts all policies of a world.
func rowsOf(t *testing.T, w *policyspec.World) (rows []*policy.Policy) {
	t.Helper()
	add := func(row *policy.Policy, err error) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	for _, p := range w.Policies {
		add(policies.OfNetworkPolicy(p))
	}
	for _, p := range w.Cluster {
		add(policies.OfClusterNetworkPolicy(p))
	}
	for _, p := range w.Multi {
		meta := metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Annotations: map[string]string{policies.PolicyFor: p.For}}
		add(policies.OfMultiNetworkPolicy(&policies.MultiNetworkPolicy{ObjectMeta: meta, Spec: p.Spec}))
	}
	return rows
}

// indexOf puts rows into an index in any order, on the way over other states: only the last one
// counts.
func indexOf(m maker, rows []*policy.Policy) *rules.Index {
	index := rules.NewIndex()
	steps := slices.Concat(rows, rows)
	m.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, row := range steps {
		if m.chance(30) {
			index.Put(&policy.Policy{Key: row.Key, Tier: policy.Admin, Rules: [2][]policy.Rule{{{Action: policy.Deny, Everyone: true}}}})
		}
		if m.chance(30) {
			index.Delete(row.Key)
		}
		index.Put(row)
	}
	return index
}

func identity(w *policyspec.World, end *policyspec.End) *rules.Identity {
	if end.Pod == "" {
		return nil
	}
	id := &rules.Identity{VPC: end.VPC, Network: end.Network, Namespace: end.Namespace, NamespaceLabels: w.Namespaces[end.Namespace], Labels: end.Labels}
	for _, port := range end.Ports {
		id.Ports = append(id.Ports, rules.Port{Name: port.Name, Protocol: string(port.Protocol), Port: uint16(port.ContainerPort)})
	}
	return id
}

// compare judges one packet in both ways.
func compare(t *testing.T, w *policyspec.World, index *rules.Index, p policyspec.Packet) {
	t.Helper()
	packet := packetOf(w, p)
	got := index.Judge(&packet)
	want, by := w.Evaluate(p)
	if causes := (policyspec.By{Egress: decisionText(got.Egress), Ingress: decisionText(got.Ingress)}); got.Allowed() != want || causes != by {
		t.Fatalf("%+v is allowed: %t by %v, want %t by %v", p, got.Allowed(), causes, want, by)
	}
}

// said describes a decision as the evaluator does.
func decisionText(d rules.Decision) string {
	switch {
	case d.Cause == nil:
		return ""
	case d.Cause.Tier == policy.Namespaced:
		return "namespaced"
	}
	tier := map[policy.Tier]string{policy.Admin: "Admin", policy.Baseline: "Baseline"}[d.Cause.Tier]
	return fmt.Sprintf("%s %s %d", tier, d.Cause.Name, d.Cause.Rule)
}

// without returns a world without some policies.
func without(w *policyspec.World, gone []*policy.Policy) *policyspec.World {
	is := func(name string) bool {
		return slices.ContainsFunc(gone, func(p *policy.Policy) bool { return p.Name == name })
	}
	rest := &policyspec.World{Namespaces: w.Namespaces}
	for _, p := range w.Policies {
		if !is(p.Name) {
			rest.Policies = append(rest.Policies, p)
		}
	}
	for _, p := range w.Cluster {
		if !is(p.Name) {
			rest.Cluster = append(rest.Cluster, p)
		}
	}
	for _, p := range w.Multi {
		if !is(p.Name) {
			rest.Multi = append(rest.Multi, p)
		}
	}
	return rest
}
