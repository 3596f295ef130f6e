// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyplan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/cnid/forward/plan/policyplan"
	rows "github.com/alioth-net/alioth/store/rows/policy"
	"github.com/alioth-net/alioth/store/rules/policy/identity"
	"github.com/alioth-net/alioth/test/soak"
)

// eachWorld runs a test with random worlds after many events.
func eachWorld(t *testing.T, test func(*testing.T, maker, *policyplan.Planner)) {
	seed, count := soak.Worlds(t, 10_000, 200)
	for i := range uint64(count) {
		t.Run(soak.World(seed+i), func(t *testing.T) {
			m := maker{rand.New(rand.NewPCG(seed+i, 166))}
			p := policyplan.New(policyplan.Quota)
			for range 80 {
				m.event().apply(p)
			}
			test(t, m, p)
		})
	}
}

// TestPlan_NewIdentity_AddsRowsOnly adds identities to VPCs and to shared services: no guard and no
// row of a set changes.
func TestPlan_NewIdentity_AddsRowsOnly(t *testing.T) {
	eachWorld(t, func(t *testing.T, m maker, p *policyplan.Planner) {
		before := p.Plan()
		set := &identity.Set{VPC: "red", Namespace: pick(m, namespaces), Labels: m.labels()}
		p.PutIdentity(policyplan.Identity{Number: 900, Set: set})
		p.PutShared(policyplan.Identity{Number: 901, Set: set})
		now := p.Plan()
		for vni, part := range before.Parts {
			is := now.Parts[vni]
			if !reflect.DeepEqual(is.Guards, part.Guards) || len(is.Sets) != len(part.Sets) {
				t.Fatalf("guards %v and %d sets, want %v and %d", is.Guards, len(is.Sets), part.Guards, len(part.Sets))
			}
			for i, s := range part.Sets {
				older, more := *s, *is.Sets[i]
				rest := slices.DeleteFunc(slices.Clone(more.Peers), func(one policyplan.Peer) bool { return one.Identity >= 900 })
				if !slices.Equal(rest, older.Peers) {
					t.Fatalf("set %d has the peers %v, want %v", s.Number, more.Peers, older.Peers)
				}
				if older.Peers, more.Peers = nil, nil; !reflect.DeepEqual(older, more) {
					t.Fatalf("set %d is %+v, want %+v", s.Number, more, older)
				}
			}
			for _, list := range part.Lists {
				if !slices.Contains(is.Lists, list) {
					t.Fatalf("list %d has gone", list.Number)
				}
			}
		}
	})
}

// TestPlan_ChangedPolicy_OtherSetsStay changes a policy of one interface: the others keep their sets.
func TestPlan_ChangedPolicy_OtherSetsStay(t *testing.T) {
	eachWorld(t, func(t *testing.T, m maker, p *policyplan.Planner) {
		p.PutIdentity(policyplan.Identity{Number: 900, Set: &identity.Set{VPC: "blue", Namespace: "n1", Labels: map[string]string{"only": "here"}}})
		interfaces := []policyplan.Interface{{Ifindex: 90, Identity: 900}, {Ifindex: 91, Identity: 256 + uint32(m.IntN(12))}}
		p.PutVPC("blue", 2, interfaces)
		before := p.Plan()
		for step := range 3 {
			row := m.policy()
			row.Name, row.Subject.Pods = "special", selects("only", "here")
			row.Rules[rows.Ingress] = append(row.Rules[rows.Ingress], rows.Rule{Action: rows.Accept, Everyone: true})
			row.Isolates = [2]bool{true, true}
			if row.Namespace != "" {
				row.Namespace, row.Subject.Namespace = "n1", "n1"
			}
			p.DeletePolicy(row.Key)
			p.PutPolicy(row, false)
			now := p.Plan()
			if now.Parts[1] != before.Parts[1] {
				t.Error("the part of another VPC has changed")
			}
			for ifindex, guard := range before.Parts[2].Guards {
				same := guard == now.Parts[2].Guards[ifindex]
				if ifindex == 90 == same {
					t.Errorf("step %d: guard of %d was %v, is %v", step, ifindex, guard, now.Parts[2].Guards[ifindex])
				}
				for _, guarded := range guard.Enforced {
					if ifindex != 90 && setOf(before.Parts[2], guarded.Set) != setOf(now.Parts[2], guarded.Set) {
						t.Errorf("set %d of %d has changed", guarded.Set, ifindex)
					}
				}
			}
			before = now
		}
	})
}

func selects(key string, values ...string) rows.Selector {
	return rows.Selector{{Key: key, Operator: rows.In, Values: values}}
}

func setOf(part *policyplan.Part, number uint32) *policyplan.Set {
	for _, s := range part.Sets {
		if s.Number == number {
			return s
		}
	}
	return nil
}

// policyFor is a NetworkPolicy for the ingress of pods by app, which accepts peers by app.
func policyFor(name, app string, peers ...string) *rows.Policy {
	return &rows.Policy{
		Key: rows.Key{Kind: rows.NetworkPolicy, Namespace: "n1", Name: name}, Tier: rows.Namespaced,
		Subject: rows.Pods{Namespace: "n1", Pods: selects("app", app)}, Isolates: [2]bool{true, false},
		Rules: [2][]rows.Rule{{{Action: rows.Accept, Peers: []rows.Peer{{Pods: &rows.Pods{Namespace: "n1", Pods: selects("app", peers...)}}}}}},
	}
}

func pod(number uint32, app string) policyplan.Identity {
	set := &identity.Set{VPC: "red", Namespace: "n1", Labels: map[string]string{"app": app}}
	if app == "" {
		set.Labels, set.Omitted = nil, []string{"app"}
	}
	return policyplan.Identity{Number: number, Set: set}
}

// texts describes the delays of a part.
func texts(part *policyplan.Part) (all []string) {
	for _, d := range part.Delays {
		text := fmt.Sprint(d.Ifindex, " ", d.Reason, " without ", d.Without)
		for _, key := range d.Policies {
			text += " " + key.Name
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

func expect(t *testing.T, p *policyplan.Planner, step string, delays ...string) *policyplan.Part {
	t.Helper()
	part := p.Plan().Parts[1]
	if got := texts(part); !slices.Equal(got, delays) {
		t.Errorf("%s: delays %q, want %q", step, got, delays)
	}
	return part
}

func TestPlan_UnknownIdentity_Waits(t *testing.T) {
	p := policyplan.New(policyplan.Quota)
	p.PutVPC("red", 1, []policyplan.Interface{{Ifindex: 5, Identity: 300}})
	if part := expect(t, p, "a new interface", "5 UnknownIdentity without true"); len(part.Guards) != 0 {
		t.Errorf("guards %v, want none", part.Guards)
	}
	p.PutIdentity(pod(300, "web"))
	if part := expect(t, p, "the identity is known"); part.Guards[5] != (policyplan.Guard{}) || len(part.Guards) != 1 {
		t.Errorf("guards %v, want one without sets", part.Guards)
	}
	p.DeleteIdentity("red", 300)
	if part := expect(t, p, "the identity has gone", "5 UnknownIdentity without false"); len(part.Guards) != 1 {
		t.Errorf("guards %v, want the old one", part.Guards)
	}
}

func TestPlan_OmittedKeyOfSubject_OldSetStays(t *testing.T) {
	p := policyplan.New(policyplan.Quota)
	p.PutIdentity(pod(300, ""))
	p.PutVPC("red", 1, []policyplan.Interface{{Ifindex: 5, Identity: 300}})
	p.Plan()
	p.PutPolicy(policyFor("web", "web"), false)
	if part := expect(t, p, "a policy by an omitted key", "5 OmittedKey without false web"); part.Guards[5].Enforced[0].Set != 0 {
		t.Errorf("guard %v, want the old one", part.Guards[5])
	}
	p.PutVPC("red", 1, []policyplan.Interface{{Ifindex: 5, Identity: 300}, {Ifindex: 6, Identity: 300}})
	if part := expect(t, p, "a new interface", "5 OmittedKey without false web", "6 OmittedKey without true web"); len(part.Guards) != 1 {
		t.Errorf("guards %v, want one", part.Guards)
	}
	p.PutIdentity(pod(301, "web"))
	p.DeleteIdentity("red", 300)
	p.PutVPC("red", 1, []policyplan.Interface{{Ifindex: 5, Identity: 301}, {Ifindex: 6, Identity: 301}})
	part := expect(t, p, "an identity with the key")
	if one := part.Guards[5].Enforced[0]; one.Set == 0 || !one.Isolated || part.Guards[6] != part.Guards[5] {
		t.Errorf("guards %v, want one isolated set", part.Guards)
	}
}

func TestPlan_OmittedKeyOfPeer_OldSetStays(t *testing.T) {
	p := policyplan.New(policyplan.Quota)
	for _, one := range []policyplan.Identity{pod(300, "web"), pod(301, "a"), pod(302, "")} {
		p.PutIdentity(one)
	}
	p.PutVPC("red", 1, []policyplan.Interface{{Ifindex: 5, Identity: 300}})
	first := expect(t, p, "no policy")
	p.PutPolicy(policyFor("web", "web", "a"), false)
	if part := expect(t, p, "a policy by an omitted key", "5 OmittedKey without false web"); part.Guards[5] != first.Guards[5] {
		t.Errorf("guard %v, want the old one", part.Guards[5])
	}
	p.PutVPC("red", 1, []policyplan.Interface{{Ifindex: 5, Identity: 300}, {Ifindex: 6, Identity: 300}})
	part := expect(t, p, "a new interface", "5 OmittedKey without false web", "6 OmittedKey without true web")
	if s := setOf(part, part.Guards[6].Enforced[0].Set); s == nil || len(s.Peers) != 1 || s.Peers[0].Identity != 301 {
		t.Errorf("the set of the new interface is %+v, want one peer", s)
	}
	resting := pod(302, "")
	resting.Resting = true
	p.PutIdentity(resting)
	part = expect(t, p, "the identity has no Address any more")
	if part.Guards[5] != part.Guards[6] || part.Guards[5].Enforced[0].Set == 0 {
		t.Errorf("guards %v, want one set", part.Guards)
	}
}

func TestPlan_Quota_OldSetStays(t *testing.T) {
	p := policyplan.New(policyplan.Size{Peers: 6, Nets: 1, Ports: 8, Addresses: 1})
	for number := range uint32(3) {
		p.PutIdentity(pod(300+number, []string{"web", "a", "b"}[number]))
	}
	p.PutVPC("red", 1, []policyplan.Interface{{Ifindex: 5, Identity: 300}})
	p.PutPolicy(policyFor("web", "web", "a", "b"), false)
	first := expect(t, p, "2 rows of 3 that are left")
	p.PutPolicy(policyFor("web", "web", "a", "b", "web"), false)
	if second := expect(t, p, "3 rows, in the place of 2"); second.Guards[5] == first.Guards[5] {
		t.Errorf("guard %v has not changed", second.Guards[5])
	}
	p.PutIdentity(pod(303, "a"))
	if part := expect(t, p, "an identity too many"); part.Unfit != 1 || !slices.Equal(part.Known, []uint32{300, 301, 302}) {
		t.Errorf("%d do not fit, known are %v", part.Unfit, part.Known)
	}
	p.PutPolicy(policyFor("web", "web", "a"), false)
	fitting := expect(t, p, "fewer rows")
	p.PutNamespace("n2", nil)
	p.PutAddress("red", netip.MustParseAddr("10.0.0.1"), 300)
	if part := expect(t, p, "the identity fits at the next plan"); part.Unfit != 0 || len(part.Known) != 4 || part.Guards[5] != fitting.Guards[5] {
		t.Errorf("%d do not fit, known are %v", part.Unfit, part.Known)
	}
	p.PutPolicy(policyFor("web", "web", "a", "b"), false)
	part := expect(t, p, "too many rows", "5 TooLarge without false web")
	if s := setOf(part, part.Guards[5].Enforced[0].Set); part.Guards[5] != fitting.Guards[5] || len(s.Peers) != 2 {
		t.Errorf("guard %v with set %+v, want the old one", part.Guards[5], s)
	}
	p.PutAddress("red", netip.MustParseAddr("10.0.0.2"), 301)
	if part := expect(t, p, "an address too many", "5 TooLarge without false web"); len(part.Addresses) != 1 || part.Unfit != 1 {
		t.Errorf("addresses %v, unfit %d", part.Addresses, part.Unfit)
	}
	p.PutVPC("red", 1, []policyplan.Interface{{Ifindex: 5, Identity: 300}, {Ifindex: 6, Identity: 301}})
	p.PutPolicy(policyFor("a", "a", "a", "b"), false)
	if part := expect(t, p, "a new interface", "5 TooLarge without false web", "6 TooLarge without true a"); len(part.Guards) != 1 {
		t.Errorf("guards %v, want one", part.Guards)
	}
}

func TestPlan_Quota_NamespaceLabelsWait(t *testing.T) {
	p := policyplan.New(policyplan.Size{Peers: 3, Nets: 1, Ports: 8})
	p.PutIdentity(pod(300, "web"))
	p.PutIdentity(pod(301, "a"))
	p.PutVPC("red", 1, []policyplan.Interface{{Ifindex: 5, Identity: 300}})
	row := policyFor("web", "web")
	row.Rules[rows.Ingress][0].Peers[0].Pods = &rows.Pods{Namespaces: selects("env", "prod")}
	p.PutPolicy(row, false)
	first := expect(t, p, "no peers")
	p.PutNamespace("n1", map[string]string{"env": "prod"})
	if part := expect(t, p, "two peers", "5 TooLarge without false web"); part.Guards[5] != first.Guards[5] {
		t.Errorf("guard %v, want the old one", part.Guards[5])
	}
	p.DeleteIdentity("red", 301)
	part := expect(t, p, "one peer")
	if s := setOf(part, part.Guards[5].Enforced[0].Set); part.Guards[5] == first.Guards[5] || len(s.Peers) != 1 {
		t.Errorf("guard %v with set %+v, want a new one", part.Guards[5], s)
	}
}

func TestPlan_RehearsedPolicy_SecondSetOnly(t *testing.T) {
	p := policyplan.New(policyplan.Quota)
	p.PutIdentity(pod(300, "web"))
	p.PutVPC("red", 1, []policyplan.Interface{{Ifindex: 5, Identity: 300}})
	p.PutPolicy(policyFor("web", "web", "a"), false)
	first := expect(t, p, "enforced").Guards[5]
	p.PutPolicy(policyFor("more", "web", "b"), true)
	part := expect(t, p, "rehearsed")
	if guard := part.Guards[5]; guard.Enforced != first.Enforced || guard.Rehearsed[0].Set == 0 || guard.Rehearsed[1].Set != 0 {
		t.Errorf("guard %v, want a second set for ingress", guard)
	}
	if s := setOf(part, part.Guards[5].Rehearsed[0].Set); len(s.Causes) != 2 {
		t.Errorf("the rehearsed set has %d rules, want the rules of both policies", len(s.Causes))
	}
	p.PutPolicy(policyFor("more", "web", "b"), false)
	if guard := expect(t, p, "enforced after the rehearsal").Guards[5]; guard.Rehearsed != (policyplan.Guard{}).Rehearsed || guard.Enforced == first.Enforced {
		t.Errorf("guard %v, want both policies enforced", guard)
	}
}
