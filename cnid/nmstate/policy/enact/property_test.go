// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// story is a random course of a cluster.
type story struct {
	*cluster
	r *rand.Rand
}

// TestEnact_RandomEvents_EndAtDesiredState: policies, labels, taints, failures and
// clocks change at any time, and any write may be lost. There are never more slots than the
// policies permit. When all is quiet, each node has exactly what its policies and its
// administrator want; and once the policies are gone, only the latter, on a network that is
// as it was.
func TestEnact_RandomEvents_EndAtDesiredState(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			s := story{cluster: newCluster(t, "n1", "n2", "n3", "n4"), r: r}
			manual := map[string]map[string]any{}
			for node, state := range s.states {
				if r.IntN(3) == 0 {
					state.Desired = parsed(t, "interfaces: [{name: eth2, mtu: 1400}]")
					manual[node] = state.Desired
				}
			}
			s.lose = func() bool { return r.IntN(6) == 0 }
			for range 10 + r.IntN(60) {
				s.happen()
			}
			s.quiet()
			s.settle()
			s.complete(manual)
			clear(s.policies)
			s.settle()
			s.empty(manual)
		})
	}
}

// happen is one event, or one pass of one program.
func (s *story) happen() {
	node := "n" + strconv.Itoa(1+s.r.IntN(4))
	name := []string{"a", "b", "c.net", "d.net"}[s.r.IntN(4)]
	switch s.r.IntN(15) {
	case 0, 1:
		s.put(name, s.desired(), s.random())
	case 2:
		delete(s.policies, ref(name))
	case 3:
		s.relabel(node)
	case 4:
		s.fails[node] = s.r.IntN(3) == 0
		s.impossible["d2"] = s.r.IntN(3) == 0
	case 5:
		s.now = s.now.Add(time.Duration(s.r.IntN(7)) * time.Minute)
	case 6:
		state := *s.states[node]
		state.Managed = s.r.IntN(3) > 0
		s.states[node] = &state
	case 7, 8:
		s.enforce(node)
	case 9, 10:
		if s.policies[ref(name)] != nil {
			s.roll(ref(name))
		}
	case 11:
		s.former(node, name)
	default:
		s.handle(node)
	}
}

// former gives an enactment the name that an earlier version gave to it, as if that had made
// it. It may have been replaced before by one that is still there.
func (s *story) former(node, name string) {
	e := s.enactment(node, name)
	if e == nil || e.Slot.Expires.After(s.now) {
		return
	}
	row := *e
	row.Name, row.UID = node+"."+name, s.next()
	if s.r.IntN(3) > 0 {
		delete(s.enactments, e.Name)
	}
	s.enactments[row.Name] = &row
}

func (s *story) relabel(node string) {
	n := s.nodes[node]
	n.Labels = map[string]string{"net": []string{"a", "b"}[s.r.IntN(2)]}
	n.Taints = nil
	if s.r.IntN(3) == 0 {
		n.Taints = []policy.Taint{{Key: "dedicated", Effect: policy.NoSchedule}}
	}
	s.nodes[node] = n
}

// desired is a state of few interfaces, so that policies meet.
func (s *story) desired() string {
	pick := func(list ...string) string { return list[s.r.IntN(len(list))] }
	text := "interfaces:\n"
	for _, name := range []string{"eth1", "d1", "d2"} {
		if s.r.IntN(2) == 0 {
			continue
		}
		kind := map[string]string{"eth1": "ethernet"}[name]
		if kind == "" {
			kind = "dummy"
		}
		text += fmt.Sprintf("- {name: %s, type: %s, mtu: %s%s}\n", name, kind, pick("1400", "2000", "9000"), pick("", ", description: x", ", state: up"))
	}
	return text + pick("", "- {name: d3, type: dummy}\n")
}

func (s *story) random() func(*nmstate.Policy) {
	return func(row *nmstate.Policy) {
		row.Spec.Priority = int32(s.r.IntN(2))
		row.Spec.IgnoreTaints = s.r.IntN(2) == 0
		row.Unavailable = nmstate.Unavailable([]string{"1", "2", "50%", "100%"}[s.r.IntN(4)])
		row.Spec.Selector = []map[string]string{nil, {"net": "a"}, {"net": "b"}}[s.r.IntN(3)]
		row.Spec.Reach = [][]string{nil, {"x"}, {"y", "x"}}[s.r.IntN(3)]
		row.Spec.Match = nil
		if s.r.IntN(4) == 0 {
			row.Spec.Match = []nmstate.MatchRule{{Type: "ethernet"}}
			row.Spec.Desired = parsed(s.t, "interfaces: [{mtu: 3000}]")
		}
	}
}

// quiet is the end of all trouble.
func (s *story) quiet() {
	s.lose = func() bool { return false }
	clear(s.fails)
	clear(s.impossible)
	for name, node := range s.nodes {
		node.Taints = nil
		s.nodes[name] = node
		state := *s.states[name]
		state.Managed = true
		s.states[name] = &state
	}
	s.now = s.now.Add(time.Hour)
}

// complete checks that each node has the state of its policies.
func (s *story) complete(manual map[string]map[string]any) {
	s.t.Helper()
	for name, node := range s.nodes {
		var shares []policy.Share
		var reach []string
		origin := parsed(s.t, currentState)
		for _, one := range s.policies {
			if applies, _ := policy.Applies(one.Spec, node); !applies {
				continue
			}
			desired, _, err := policy.Instantiate(one.Spec, policy.Node{Current: origin})
			if err != nil {
				s.t.Fatal(err)
			}
			shares = append(shares, policy.Share{Policy: one.Spec.Reference, Priority: one.Spec.Priority, Desired: desired})
			s.phase(name, one.Spec.Name, nmstate.Available, "SuccessfullyConfigured")
			if s.enactment(name, one.Spec.Name).Applied != nil {
				reach = append(reach, one.Spec.Reach...)
			}
		}
		s.divided(name)
		slices.Sort(reach)
		if got := slices.Sorted(slices.Values(s.states[name].PolicyReach)); !slices.Equal(got, slices.Compact(reach)) {
			s.t.Errorf("node %s has to reach %q, want %q", name, got, slices.Compact(reach))
		}
		want, err := policy.Aggregate(shares, manual[name])
		if err != nil {
			s.t.Fatal(err)
		}
		if got := s.states[name].Desired; !policy.Same(got, want.Desired) {
			s.t.Errorf("node %s:\n got %s\nwant %s", name, words(s.t, got), words(s.t, want.Desired))
		}
	}
	for one, status := range s.statuses {
		if s.policies[one] != nil && status.Condition != "Available" && status.Condition != "Ignored" {
			s.t.Errorf("policy %s is %s: %s", one, status.Condition, status.Message)
		}
	}
}

// divided checks that each part of a node's desired state has the targets of its policies.
func (s *story) divided(node string) {
	s.t.Helper()
	for _, one := range s.policies {
		e := s.enactment(node, one.Spec.Name)
		if e == nil || len(e.Applied) == 0 {
			continue
		}
		called := e.Applied["interfaces"].([]any)[0].(map[string]any)["name"].(string) // of the part of the policy
		for _, part := range s.states[node].Parts {
			for _, target := range one.Spec.Reach {
				if slices.Contains(part.Paths, "interfaces["+called+"]") && !slices.Contains(part.Reach, target) {
					s.t.Errorf("node %s: the part of policy %s has to reach %q, want %s too", node, one.Spec.Name, part.Reach, target)
				}
			}
		}
	}
}

// empty checks that no policy left anything.
func (s *story) empty(manual map[string]map[string]any) {
	s.t.Helper()
	if len(s.enactments) > 0 {
		s.t.Errorf("enactments are left: %s", words(s.t, s.enactments))
	}
	for name, state := range s.states {
		if !policy.Same(state.Desired, manual[name]) || len(state.FromPolicies)+len(state.PolicyReach) > 0 {
			s.t.Errorf("node %s: the desired state is %s, want %s", name, words(s.t, state.Desired), words(s.t, manual[name]))
		}
		want := become(s.t, parsed(s.t, currentState), manual[name])
		for _, item := range state.Current["interfaces"].([]any) {
			// The kernel keeps an empty description.
			if i := item.(map[string]any); i["description"] == "" {
				delete(i, "description")
			}
		}
		if !policy.Same(state.Current, want) {
			s.t.Errorf("node %s: the network is %s, want %s", name, words(s.t, state.Current), words(s.t, want))
		}
	}
}
