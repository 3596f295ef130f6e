// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

func TestProbes_SeveralPodsShareAddress_OldestProbed(t *testing.T) {
	w := tenants(t)
	w.put(t, podWithHooks("b1"), pod("r1", true))
	got := w.build().Datapath
	if diff := cmp.Diff([]state.ProbeTarget{{IP: ip("10.10.1.10"), Shadow: ip("169.254.64.2")}}, got.Probes, byValue); diff != "" {
		t.Errorf("probes (-want +got):\n%s", diff)
	}
	hooks := []state.HookTarget{{IP: ip("10.10.1.10"), Shadow: ip("169.254.64.2")}}
	if diff := cmp.Diff(hooks, got.Hooks, byValue); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	w.put(t, pod("b1", false))
	if got := w.build().Datapath.Probes; len(got) != 1 || got[0].Shadow != ip("169.254.64.3") {
		t.Errorf("with the older one unprobed: %v", got)
	}
}

func TestProbes_KubeletOwnTraffic_NeverLedToPod(t *testing.T) {
	endpoint := slice("default", "kubernetes", "a", nil, ready("10.10.1.10"))
	cases := map[string]struct {
		row           func(store.Tx) error
		change        func(*Config)
		probes, hooks int
	}{
		"an endpoint of the API server, which no probe is for": {endpoint, func(*Config) {}, 1, 0},
		"the configured host, likewise":                        {pod("x", false), func(cfg *Config) { cfg.Reserved = ips("10.10.1.10") }, 1, 0},
		"the node's own, which others are probed under":        {node("node1", "192.0.2.1", "10.10.1.10"), func(*Config) {}, 0, 0},
		"the infrastructure's":                                 {pod("x", false), func(cfg *Config) { cfg.Infrastructure = prefixes("10.10.0.0/16") }, 0, 0},
		"another node's, where it has none":                    {node2With("10.10.1.10"), func(*Config) {}, 1, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := tenants(t)
			w.put(t, podWithHooks("b1"), c.row)
			if got := w.build(c.change).Datapath; len(got.Probes) != c.probes || len(got.Hooks) != c.hooks {
				t.Errorf("probes %v, hooks %v, want %d and %d", got.Probes, got.Hooks, c.probes, c.hooks)
			}
		})
	}
}

func TestProbes_PodWithoutInterface_KubeletRefused(t *testing.T) {
	refused := []state.ProbeTarget{{IP: ip("10.10.1.77")}}
	old := journal.Record{
		Identity:  journal.Identity{Pod: journal.Pod{Namespace: "ns", Name: "old", UID: "old"}},
		Interface: journal.Interface{Addrs: prefixes("10.10.1.77/24")},
		Probed:    true,
	}
	cases := map[string]struct {
		change func(*world, *journal.Record)
		want   []state.ProbeTarget
	}{
		"it leaves":                {func(w *world, r *journal.Record) { r.Phase = journal.PhaseLeaving; w.records = append(w.records, *r) }, refused},
		"it has left a moment ago": {func(w *world, r *journal.Record) { w.removed = append(w.removed, *r) }, refused},
		"its device is gone":       {func(w *world, r *journal.Record) { r.Phase = journal.PhaseDone; w.records = append(w.records, *r) }, refused},
		"it leads outside of every VPC": {func(w *world, r *journal.Record) {
			r.Phase, r.Outside = journal.PhaseDone, "physical"
			w.records = append(w.records, *r)
		}, nil},
		"nobody probed it": {func(w *world, r *journal.Record) { r.Probed = false; w.removed = append(w.removed, *r) }, nil},
		"the address is the node's": {func(w *world, r *journal.Record) {
			r.Addrs = prefixes("192.0.2.1/24")
			w.removed = append(w.removed, *r)
		}, nil},
		"somebody else has it by now": {func(w *world, r *journal.Record) {
			r.Addrs = prefixes("10.10.1.10/24")
			w.removed = append(w.removed, *r)
		}, []state.ProbeTarget{{IP: ip("10.10.1.10"), Shadow: ip("169.254.64.2")}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := tenants(t)
			if name == "somebody else has it by now" {
				w.put(t, pod("b1", true))
			}
			rec := old
			c.change(w, &rec)
			if diff := cmp.Diff(c.want, w.build().Datapath.Probes, byValue); diff != "" {
				t.Errorf("probes (-want +got):\n%s", diff)
			}
		})
	}
}

// node2With is node2 with an additional address, which is not an InternalIP.
func node2With(extra string) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutNode(tx, &store.Node{
			Meta: store.Meta{UID: "node2"}, Name: "node2", Addresses: ips("192.0.2.2"), AllAddresses: ips("192.0.2.2", extra),
		})
	}
}

func TestProbes_IndistinguishablePods_RefusedWithCauseAndRemedy(t *testing.T) {
	cases := []struct {
		name   string
		rows   []func(store.Tx) error
		uid    string
		addr   string
		before uint64
		want   []string
	}{
		{
			"the other has probes",
			[]func(store.Tx) error{pod("b1", true), pod("new", true)},
			"new", "10.10.1.10", 0,
			[]string{"10.10.1.10", "pod ns/b1", "exec probes"},
		},
		{"the other has none", []func(store.Tx) error{pod("b1", false), pod("new", true)}, "new", "10.10.1.10", 0, nil},
		{"it has none itself", []func(store.Tx) error{pod("b1", true), pod("new", false)}, "new", "10.10.1.10", 0, nil},
		{"another IP", []func(store.Tx) error{pod("b1", true), pod("new", true)}, "new", "10.10.1.77", 0, nil},
		{"its own earlier sandbox", []func(store.Tx) error{pod("b1", true)}, "b1", "10.10.1.10", 0, nil},
		{"the other came later", []func(store.Tx) error{pod("r1", true), pod("new", true)}, "new", "10.10.1.10", 2, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := tenants(t)
			w.put(t, c.rows...)
			var got string
			w.store.View(func(tx store.ReadTx) {
				got = message(ProbeConflict(tx, w.records, store.GetPod(tx, c.uid), ips(c.addr), c.before))
			})
			if (got == "") != (c.want == nil) {
				t.Fatalf("got %q", got)
			}
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("%q does not say %q", got, part)
				}
			}
		})
	}
}

func TestProbes_PodTerminating_ProbedUntilGone(t *testing.T) {
	leaving := func(deleting, probed bool, ip string) func(store.Tx) error {
		return func(tx store.Tx) error {
			return store.PutPod(tx, &store.Pod{
				Meta: store.Meta{UID: "old", Deleting: deleting}, Namespace: "ns", Name: "old", Node: "node1", NetworkProbes: probed,
				Attachments: `[{"name": "eth0", "kind": "veth", "vpc": "v", "subnet": "s", "mac": "", "addresses": ["` + ip + `/24"]}]`,
			})
		}
	}
	for name, c := range map[string]struct {
		row     func(store.Tx) error
		refused bool
	}{
		"without its sandbox":      {leaving(true, true, "10.10.1.50"), true},
		"without probes":           {leaving(true, false, "10.10.1.50"), false},
		"with another address":     {leaving(true, true, "10.10.1.51"), false},
		"not deleted, not started": {leaving(false, true, "10.10.1.50"), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := tenants(t)
			w.put(t, pod("new", true), c.row)
			w.store.View(func(tx store.ReadTx) {
				got := message(ProbeConflict(tx, w.records, store.GetPod(tx, "new"), ips("10.10.1.50"), 0))
				if strings.Contains(got, "pod ns/old") != c.refused {
					t.Errorf("got %q", got)
				}
			})
		})
	}
}

func TestProbes_PodForgottenByAPI_ProbedUntilTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*journal.Record)
		want   string
	}{
		"its sandbox is still here":        {func(r *journal.Record) { r.Probed = true }, "pod ns/gone's"},
		"it has just left":                 {func(r *journal.Record) { r.Probed, r.Phase = true, journal.PhaseLeaving }, "pod ns/gone's"},
		"it has just left, was not probed": {func(r *journal.Record) { r.Phase = journal.PhaseLeaving }, ""},
		"it had another address": {func(r *journal.Record) {
			r.Probed, r.Addrs = true, prefixes("10.10.1.51/24")
		}, ""},
		"it is an earlier sandbox of the same pod": {func(r *journal.Record) { r.Probed, r.Pod.UID = true, "new" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := tenants(t)
			w.put(t, pod("new", true))
			rec := journal.Record{
				Identity:  journal.Identity{Pod: journal.Pod{Namespace: "ns", Name: "gone", UID: "gone"}},
				Interface: journal.Interface{Addrs: prefixes("10.10.1.50/24")},
				Phase:     journal.PhaseDone, Seq: 1,
			}
			c.change(&rec)
			w.store.View(func(tx store.ReadTx) {
				got := message(ProbeConflict(tx, append(w.records, rec), store.GetPod(tx, "new"), ips("10.10.1.50"), 0))
				if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestProbes_TargetOnNodeNetwork_PodRefused(t *testing.T) {
	cases := []struct {
		name    string
		pod     store.Pod
		addr    string
		refused string
	}{
		{"the API server's, with probes", store.Pod{NetworkProbes: true}, "10.10.1.77", ""},
		{"the API server's, with hooks", store.Pod{NetworkProbes: true, NetworkHooks: true}, "10.10.1.77", "10.10.1.77"},
		{"the node's own", store.Pod{NetworkProbes: true}, "192.0.2.1", "192.0.2.1"},
		{"the infrastructure's", store.Pod{NetworkProbes: true}, "198.51.100.9", "198.51.100.9"},
		{"another node's, with hooks", store.Pod{NetworkProbes: true, NetworkHooks: true}, "192.0.2.2", ""},
		{"somebody else's, with hooks", store.Pod{NetworkProbes: true, NetworkHooks: true}, "192.0.2.3", ""},
		{"the node's own, without probes", store.Pod{}, "192.0.2.1", ""},
		{"a host of its own choice", store.Pod{ProbeHost: "host.example"}, "192.0.2.3", "host.example"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := tenants(t)
			w.put(t, slice("default", "kubernetes", "a", nil, ready("10.10.1.77")))
			cfg := testConfig()
			cfg.Infrastructure = prefixes("198.51.100.0/24")
			w.store.View(func(tx store.ReadTx) {
				got := message(ProbeRefusal(tx, cfg, &c.pod, ips(c.addr)))
				if (got == "") != (c.refused == "") || !strings.Contains(got, c.refused) {
					t.Errorf("got %q", got)
				}
			})
		})
	}
}

// message returns the text of a refusal, "" without one.
func message(refusal *Refusal) string {
	if refusal == nil {
		return ""
	}
	return refusal.Message
}
