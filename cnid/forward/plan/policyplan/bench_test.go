// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyplan_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/alioth-net/alioth/cnid/forward/plan/policyplan"
	rows "github.com/alioth-net/alioth/store/rows/policy"
	"github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/store/rules/policy/identity"
)

// crowd has 10,000 pods in VPCs of equal size, 5 namespaces in each, 10,000 NetworkPolicies, and a node
// with 100 of the pods.
type crowd struct{ vpcs, pods, policies, local int }

func (c crowd) namespace(pod int) string { return fmt.Sprintf("n%d-%d", pod%c.vpcs, pod/c.vpcs%5) }

func (c crowd) identity(pod int) policyplan.Identity {
	app := pod / c.vpcs
	labels := map[string]string{"app": fmt.Sprint("app", app), "tier": fmt.Sprint("tier", app%4), "env": "prod"}
	return policyplan.Identity{Number: 256 + uint32(app), Set: &identity.Set{
		VPC: fmt.Sprint("vpc", pod%c.vpcs), Namespace: c.namespace(pod), Labels: labels,
		Ports: []policy.Port{{Name: "web", Protocol: "TCP", Port: 8080}}, Omitted: []string{"pod-template-hash"},
	}}
}

// policy has two rules for ingress and one for egress, with pods, a range with an exception, and ports.
func (c crowd) policy(n, revision int) *rows.Policy {
	pods := func(key, value string) rows.Peer {
		return rows.Peer{Pods: &rows.Pods{Namespace: c.namespace(n), Pods: selects(key, value)}}
	}
	cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n), 0, 0}), 16)
	hole := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n), byte(revision), 0}), 24)
	subject := selects("app", fmt.Sprint("app", n/c.vpcs))
	if n/c.vpcs%10 == 0 { // of all pods in the namespace
		subject = nil
	}
	return &rows.Policy{
		Key: rows.Key{Kind: rows.NetworkPolicy, Namespace: c.namespace(n), Name: fmt.Sprint("p", n)}, Tier: rows.Namespaced,
		Subject: rows.Pods{Namespace: c.namespace(n), Pods: subject}, Isolates: [2]bool{true, true},
		Rules: [2][]rows.Rule{
			{
				{Action: rows.Accept, Peers: []rows.Peer{pods("tier", fmt.Sprint("tier", n%4))}, Ports: []rows.Ports{{Protocol: "TCP", Name: "web"}}},
				{
					Action: rows.Accept, Peers: []rows.Peer{{Block: &rows.Block{CIDR: cidr, Except: []netip.Prefix{hole}}}},
					Ports: []rows.Ports{{Protocol: "TCP", First: 8000, Last: 8999}},
				},
			},
			{{Action: rows.Accept, Peers: []rows.Peer{pods("env", "prod"), {Block: &rows.Block{CIDR: cidr}}}}},
		},
	}
}

// planner has all objects of the crowd, and no plan yet. It reads what a node reads: the policies of all
// namespaces, and the identities of the VPCs of its pods.
func (c crowd) planner() *policyplan.Planner {
	p := policyplan.New(policyplan.Quota)
	for n := range c.policies {
		p.PutPolicy(c.policy(n, 0), false)
	}
	interfaces := map[int][]policyplan.Interface{}
	for pod := range c.pods {
		one := c.identity(pod)
		p.PutNamespace(one.Set.Namespace, map[string]string{"team": one.Set.VPC})
		p.PutIdentity(one)
		p.PutAddress(one.Set.VPC, netip.AddrFrom4([4]byte{10, 0, byte(pod / c.vpcs >> 8), byte(pod / c.vpcs)}), one.Number)
	}
	for k := range c.local { // spread over the VPCs, and over their pods
		vpc := k % c.vpcs
		pod := vpc + c.vpcs*(k/c.vpcs*7%(c.pods/c.vpcs))
		interfaces[vpc] = append(interfaces[vpc], policyplan.Interface{Ifindex: 10 + k, Identity: c.identity(pod).Number})
	}
	for vpc, list := range interfaces {
		p.PutVPC(fmt.Sprint("vpc", vpc), uint32(vpc+1), list)
	}
	return p
}

func size(plan policyplan.Plan) (sets, peers, nets, ports int) {
	for _, part := range plan.Parts {
		peers += len(part.Known)
		for _, s := range part.Sets {
			sets, peers, nets = sets+1, peers+len(s.Peers), nets+len(s.Nets)
		}
		for _, list := range part.Lists {
			ports += len(list.Ports)
		}
	}
	return sets, peers, nets, ports
}

// BenchmarkPlan has the time of a full plan and of single changes, with their memory.
func BenchmarkPlan(b *testing.B) {
	for name, c := range map[string]crowd{
		"100VPCs": {vpcs: 100, pods: 10_000, policies: 10_000, local: 100},
		"1VPC":    {vpcs: 1, pods: 10_000, policies: 10_000, local: 100},
	} {
		b.Run(name, func(b *testing.B) { c.bench(b) })
	}
}

func (c crowd) bench(b *testing.B) {
	b.Helper()
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			c.planner()
		}
	})
	b.Run("first", func(b *testing.B) {
		var before, after runtime.MemStats
		for b.Loop() {
			b.StopTimer()
			p := c.planner()
			runtime.GC()
			runtime.ReadMemStats(&before)
			b.StartTimer()
			plan := p.Plan()
			b.StopTimer()
			runtime.GC()
			runtime.ReadMemStats(&after)
			sets, peers, nets, ports := size(plan)
			b.ReportMetric(float64(sets), "sets")
			b.ReportMetric(float64(peers), "peers")
			b.ReportMetric(float64(nets), "nets")
			b.ReportMetric(float64(ports), "ports")
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB-plan")
			b.ReportMetric(float64(after.HeapAlloc)/(1<<20), "MiB-all")
			runtime.KeepAlive(p)
			runtime.KeepAlive(plan)
			b.StartTimer()
		}
	})
	p := c.planner()
	p.Plan()
	n := 0
	change := func(name string, apply func(n int)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n++
				apply(n)
				p.Plan()
			}
		})
	}
	change("identity", func(n int) {
		one := c.identity(0)
		one.Number = uint32(1<<20 + n)
		p.PutIdentity(one)
		p.DeleteIdentity(one.Set.VPC, one.Number-1)
	})
	change("label", func(n int) { // of a local pod: its interface has the one or the other identity
		p.PutVPC("vpc0", 1, []policyplan.Interface{{Ifindex: 10, Identity: c.identity(c.vpcs * (n % 9)).Number}})
	})
	change("policy", func(n int) { p.PutPolicy(c.policy(0, n%200+1), false) })
	change("elsewhere", func(n int) { p.PutPolicy(c.policy(c.policies-1, n%200+1), false) })
	change("namespace", func(n int) { p.PutNamespace(c.namespace(0), map[string]string{"team": fmt.Sprint(n)}) })
}
