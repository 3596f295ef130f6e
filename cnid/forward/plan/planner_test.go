// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/services"
	"github.com/alioth-net/alioth/test/soak"
)

func (w *world) plan(p *Planner, change ...func(*Config)) (wanted Wanted) {
	w.store.View(func(tx store.ReadTx) { wanted = p.Plan(tx, w.input(change...)) })
	return wanted
}

// TestPlanner_RandomChanges_EqualsBuild makes random changes, and compares after each few of
// them. So that they meet, there are few of everything.
func TestPlanner_RandomChanges_EqualsBuild(t *testing.T) {
	opened, closed, balanced, seen := 0, 0, 0, map[string]int{}
	for seed := range soak.Or(t, uint64(200), 10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := &randomWorld{world: tenants(t), Rand: rand.New(rand.NewPCG(seed, 1))}
			planner, last, before := &Planner{}, Wanted{}, whole{}
			for step := range 600 {
				r.step(t)
				now := r.plan(planner, r.adapt)
				if want, got := r.build(r.adapt), together(now); !reflect.DeepEqual(want, got) {
					t.Fatalf("step %d: the plan (-anew +kept):\n%s", step, cmp.Diff(want, got, byValue))
				}
				if step > 0 && !reflect.DeepEqual(before, together(last)) {
					t.Fatalf("step %d changed the plan of the step before it", step)
				}
				if step > 0 && !slices.Equal(balancers(before), balancers(together(now))) {
					balanced++
				}
				last, before = now, together(now)
				opened, closed = opened+len(now.Filter.HostPorts), closed+len(now.ClosedPorts)
				count(seen, now)
			}
		})
	}
	for _, what := range []string{
		"a node port", "a node port that leads to a backend here", "an exposed address", "an exposed address that leads to a backend here",
		"a shared Service", "a health check", "a node port that a VPC may ask for", "a backend outside of every VPC",
	} {
		if seen[what] < 100 {
			t.Errorf("in all steps together there was %s %d times: too few", what, seen[what])
		}
	}
	if balanced < 10 {
		t.Errorf("in all steps together a load balancer's address came or went %d times: too few", balanced)
	}
	if opened < 100 || closed < 100 {
		t.Errorf("in all steps together %d ports of the node were open, %d closed: too few", opened, closed)
	}
}

// count counts what a plan has of each way to Services.
func count(seen map[string]int, w Wanted) {
	for _, f := range w.Filter.Frontends {
		what := "a node port"
		if !f.IP.IsUnspecified() {
			what = "an exposed address"
		}
		seen[what]++
		if len(f.Here) > 0 {
			seen[what+" that leads to a backend here"]++
		}
	}
	seen["a shared Service"] += len(w.Datapath.VPCs[0].Services)
	for number, list := range w.Datapath.Services {
		for a := range list.All() {
			if state.IsOutside(number) && len(a.Services[0].Backends) > 0 {
				seen["a backend outside of every VPC"]++
			}
		}
	}
	seen["a health check"] += len(w.Health)
	for _, v := range w.Datapath.VPCs {
		seen["a node port that a VPC may ask for"] += len(v.NodePorts)
	}
}

// balancers are the virtual addresses of load balancers: none of them is in the
// range of ClusterIPs.
func balancers(w whole) (list []netip.Addr) {
	for _, s := range w.Datapath.Services {
		if !prefix("10.96.0.0/16").Contains(s.VIP) {
			list = append(list, s.VIP)
		}
	}
	return list
}

// usage returns the usage of all Services in a VPC together.
func (w *world) usage(vpc string) (sum services.Usage) {
	w.store.View(func(tx store.ReadTx) {
		for _, service := range store.ListServices(tx) {
			sum = sum.Plus(services.UsageOf(tx, vpc, service))
		}
	})
	return sum
}

// TestPlanner_Sharing_EqualsBuild plans Services that exceed the room of the node together.
func TestPlanner_Sharing_EqualsBuild(t *testing.T) {
	w := scaledTenants(t)
	random := rand.New(rand.NewPCG(5, 6))
	planner, full, left := &Planner{}, 0, 0
	for step := range 60 {
		name := fmt.Sprintf("big-%d", random.IntN(6))
		w.put(t, func(tx store.Tx) error {
			if random.IntN(4) == 0 {
				store.DeleteService(tx, "blue", name, name)
				return nil
			}
			var ports []store.ServicePort
			for port := range 1000 + random.IntN(5000) {
				ports = append(ports, store.ServicePort{Protocol: "TCP", Port: uint16(1 + port)})
			}
			return store.PutService(tx, &store.Service{
				Meta:      store.Meta{UID: name, Created: time.Unix(int64(random.IntN(3)), 0)},
				Namespace: "blue", Name: name, ClusterIPs: ips(fmt.Sprintf("10.96.1.%d", 1+random.IntN(6))), Ports: ports,
			})
		})
		now := w.plan(planner)
		if want, got := w.build(), together(now); !reflect.DeepEqual(want.Datapath.Services, got.Datapath.Services) {
			t.Fatalf("step %d: anew there are %d services, kept %d", step, len(want.Datapath.Services), len(got.Datapath.Services))
		}
		if rows := len(together(now).Datapath.Services); rows > services.QuotaOfVPC.Rows {
			t.Fatalf("step %d: %d services", step, rows)
		}
		if !services.QuotaOfVPC.Holds(w.usage("blue")) {
			full++
		} else {
			left++
		}
	}
	if full < 10 || left < 10 {
		t.Errorf("there was no room %d times, and room %d times", full, left)
	}
}

func TestPlanner_Change_ConcernedVirtualAddressesUpdated(t *testing.T) {
	w := scaledTenants(t)
	web := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80}}
	for i, name := range []string{"one", "two", "three"} {
		w.put(t,
			service("blue", name, []string{fmt.Sprintf("10.96.1.%d", i)}, web...),
			slice("blue", name, name, web, ready(fmt.Sprintf("10.10.1.%d", 10+i))),
		)
	}
	p := &Planner{}
	last := w.plan(p).Datapath
	for _, c := range []struct {
		what    string
		change  func(store.Tx) error
		changed []string
	}{
		{"an address that nobody names", address("blue", "10.10.1.50", "node2", store.HolderPod, "b5"), nil},
		{"an address that a slice names", address("blue", "10.10.1.12", "node2", store.HolderPod, "somebody"), []string{"10.96.1.2"}},
		{"another VPC's address", address("red", "10.10.1.11", "node2", store.HolderPod, "r3"), nil},
		{"a slice", slice("blue", "two", "two", web, ready("10.10.1.10")), []string{"10.96.1.1"}},
		{"a slice of another Service", slice("blue", "one", "two", web, ready("10.10.1.12")), []string{"10.96.1.0", "10.96.1.1"}},
		{"a Service", service("blue", "three", []string{"10.96.1.2"}, web[0], store.ServicePort{Protocol: "UDP", Port: 53}), []string{"10.96.1.2"}},
		{"a node", node("node2", "2001:db8::2", "192.0.2.9"), nil},
		{"another tenant's Network", network("red", "other", "red"), nil},
		{"a Service of another VPC", service("red", "four", []string{"10.96.1.9"}, web...), nil},
		{"a Service's Network", func(tx store.Tx) error {
			row := *store.GetService(tx, "blue", "one")
			row.Network = "elsewhere"
			return store.PutService(tx, &row)
		}, []string{"10.96.1.0"}},
		{"the tenant's Network", network("blue", "default", "red"), []string{"10.96.1.1", "10.96.1.2"}},
	} {
		w.put(t, c.change)
		now := w.plan(p).Datapath
		var changed []string
		was, is := slices.Collect(last.Services[20].All()), slices.Collect(now.Services[20].All())
		for _, a := range slices.Concat(was, is) {
			if slices.Contains(was, a) != slices.Contains(is, a) {
				changed = append(changed, a.IP.String())
			}
		}
		slices.Sort(changed)
		if changed = slices.Compact(changed); !slices.Equal(changed, c.changed) {
			t.Errorf("%s: other addresses are %v, want %v", c.what, changed, c.changed)
		}
		last = now
	}
}

func TestPlanner_UnchangedVPC_PartsKept(t *testing.T) {
	w := tenants(t)
	p := &Planner{}
	first := w.plan(p)
	if again := w.plan(p); !reflect.DeepEqual(first.Datapath, again.Datapath) || first.Datapath.VPCs[20] != again.Datapath.VPCs[20] {
		t.Error("without a change the plan is another one")
	}
	w.put(t, address("blue", "10.10.1.12", "node2", store.HolderPod, "b3"))
	second := w.plan(p)
	for vni, changes := range map[uint32]bool{0: false, 1: false, 20: true, 30: false} {
		if first.Datapath.VPCs[vni] == nil || (first.Datapath.VPCs[vni] != second.Datapath.VPCs[vni]) != changes {
			t.Errorf("the part of VNI %d is another one: want %v", vni, changes)
		}
	}
	w.put(t, node("node2", "2001:db8::2", "192.0.2.3"))
	third := w.plan(p)
	if third.Datapath.VPCs[20] == second.Datapath.VPCs[20] || third.Datapath.VPCs[0] == second.Datapath.VPCs[0] {
		t.Error("a node has another address, and what leads there stays")
	}
}

// TestPlan_Built_HoldsNoStoreData has a row replaced, and so many others that
// the store forgets it.
func TestPlan_Built_HoldsNoStoreData(t *testing.T) {
	w := tenants(t)
	row := &store.Pod{Meta: store.Meta{UID: "b1"}, Namespace: "ns", Name: "b1", Node: "node1"}
	w.put(t, func(tx store.Tx) error { return store.PutPod(tx, row) })
	kept := weak.Make(row)
	row = nil
	p := &Planner{}
	w.plan(p)
	for i := range 4000 {
		w.put(t, pod("b1", i%2 == 0))
	}
	runtime.GC()
	if kept.Value() != nil {
		t.Error("the plan keeps a row that the store has no longer")
	}
	runtime.KeepAlive(p)
}
