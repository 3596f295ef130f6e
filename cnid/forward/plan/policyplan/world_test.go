// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyplan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/forward/plan/policyplan"
	rows "github.com/alioth-net/alioth/store/rows/policy"
	"github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/store/rules/policy/identity"
)

var (
	namespaces = []string{"n1", "n2", "n3"}
	vpcs       = []string{"red", "blue"}
	words      = []string{"a", "b", "c"}
)

// event changes a Planner in one way. A planner that gets the last event of each key has the same
// objects.
type event struct {
	key   string
	apply func(*policyplan.Planner)
}

// maker makes random events.
type maker struct{ *rand.Rand }

func (m maker) chance(percent int) bool { return m.IntN(100) < percent }

func pick[T any](m maker, list []T) T { return list[m.IntN(len(list))] }

func (m maker) event() event {
	switch m.IntN(10) {
	case 0, 1, 2:
		return m.policyEvent()
	case 3:
		name, labels := pick(m, namespaces), map[string]string{"env": pick(m, words)}
		return event{"namespace " + name, func(p *policyplan.Planner) { p.PutNamespace(name, labels) }}
	case 4, 5, 6:
		return m.identityEvent(m.chance(15))
	case 7:
		vpc, ip, number := pick(m, vpcs), netip.AddrFrom4([4]byte{10, 0, 0, byte(m.IntN(5))}), uint32(256+m.IntN(6))
		return event{fmt.Sprint("address ", vpc, ip), func(p *policyplan.Planner) { p.PutAddress(vpc, ip, number) }}
	}
	return m.interfacesEvent()
}

func (m maker) policyEvent() event {
	row, rehearsed := m.policy(), m.chance(20)
	if m.chance(20) {
		return event{fmt.Sprint("policy ", row.Key), func(p *policyplan.Planner) { p.DeletePolicy(row.Key) }}
	}
	return event{fmt.Sprint("policy ", row.Key), func(p *policyplan.Planner) { p.PutPolicy(row, rehearsed) }}
}

// identityEvent adds or deletes an identity of a VPC, or a shared one. The set of a number never
// changes.
func (m maker) identityEvent(shared bool) event {
	n := m.IntN(12)
	fixed := maker{rand.New(rand.NewPCG(uint64(n), 7))}
	number := uint32(256 + n)
	set := &identity.Set{VPC: pick(m, vpcs), Namespace: pick(fixed, namespaces), Labels: fixed.labels()}
	if fixed.chance(50) {
		set.Ports = []policy.Port{{Name: "web", Protocol: "TCP", Port: uint16(8000 + n)}}
	}
	if shared {
		set.VPC = "default"
	}
	in, gone := policyplan.Identity{Number: number, Set: set}, m.chance(20)
	return event{fmt.Sprint("identity ", shared, set.VPC, number), func(p *policyplan.Planner) {
		switch {
		case shared && gone:
			p.DeleteShared(number)
		case shared:
			p.PutShared(in)
		case gone:
			p.DeleteIdentity(set.VPC, number)
		default:
			p.PutIdentity(in)
		}
	}}
}

func (m maker) labels() map[string]string {
	labels := map[string]string{}
	for _, key := range []string{"app", "role"} {
		if m.chance(70) {
			labels[key] = pick(m, words)
		}
	}
	return labels
}

func (m maker) interfacesEvent() event {
	vpc := slices.Index(vpcs, pick(m, vpcs))
	var list []policyplan.Interface
	for i := range m.IntN(5) {
		list = append(list, policyplan.Interface{Ifindex: 10*vpc + i, Identity: uint32(256 + m.IntN(12))})
	}
	return event{"vpc " + vpcs[vpc], func(p *policyplan.Planner) { p.PutVPC(vpcs[vpc], uint32(vpc+1), list) }}
}

func (m maker) policy() *rows.Policy {
	n := m.IntN(8)
	row := &rows.Policy{Key: rows.Key{Kind: rows.ClusterNetworkPolicy, Name: fmt.Sprint("p", n)}, Tier: rows.Admin, Priority: int32(m.IntN(3))}
	switch {
	case n < 4:
		row.Key = rows.Key{Kind: rows.NetworkPolicy, Namespace: pick(m, namespaces), Name: row.Name}
		row.Tier, row.Subject.Namespace, row.Isolates = rows.Namespaced, row.Namespace, [2]bool{m.chance(70), m.chance(50)}
	case n < 6:
		row.Tier = rows.Baseline
	}
	row.Subject.Pods = m.selector("app")
	for direction := range row.Rules {
		for range m.IntN(3) {
			row.Rules[direction] = append(row.Rules[direction], m.rule(row))
		}
	}
	return row
}

func (m maker) rule(of *rows.Policy) rows.Rule {
	rule := rows.Rule{Action: rows.Accept}
	if of.Tier != rows.Namespaced {
		rule.Action = pick(m, []rows.Action{rows.Accept, rows.Deny, rows.Pass})
	}
	if m.chance(20) {
		rule.Everyone = true
	}
	for range m.IntN(3) {
		if rule.Everyone {
			break
		}
		peer := rows.Peer{Pods: &rows.Pods{Namespaces: m.selector("env"), Pods: m.selector("app", "role")}}
		if m.chance(30) {
			peer = rows.Peer{Block: &rows.Block{CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(m.IntN(4))}), 24+m.IntN(9)).Masked()}}
		}
		rule.Peers = append(rule.Peers, peer)
	}
	switch m.IntN(3) {
	case 0:
		rule.Ports = []rows.Ports{{Protocol: "TCP", First: 80, Last: uint16(80 + m.IntN(9))}}
	case 1:
		rule.Ports = []rows.Ports{{Protocol: "TCP", Name: "web"}}
	}
	return rule
}

func (m maker) selector(keys ...string) rows.Selector {
	if m.chance(30) {
		return nil
	}
	r := rows.Requirement{Key: pick(m, keys), Operator: pick(m, []rows.Operator{rows.In, rows.NotIn, rows.Exists, rows.DoesNotExist})}
	if r.Operator <= rows.NotIn {
		r.Values = []string{pick(m, words)}
	}
	return rows.Selector{r}
}
