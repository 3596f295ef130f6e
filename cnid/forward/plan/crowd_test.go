// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/test/soak"
)

// crowded is the external address that both tenants name. It belongs to the older Service.
const crowded = "198.18.0.9"

// crowds are the rows that a tenant can make any number of, with number i. The tenant red has
// a pod here.
var crowds = map[string]func(i int) []any{
	"Networks of its VPC":               func(i int) []any { return []any{crowdNetwork(i, "red")} },
	"Networks that name another's VPC":  func(i int) []any { return []any{crowdNetwork(i, "blue")} },
	"Services":                          func(i int) []any { return []any{crowdService(i), crowdSlice(i, "10.10.1.10")} },
	"Services without a pod":            func(i int) []any { return []any{crowdService(i), crowdSlice(i, "203.0.113.7")} },
	"Services with external IPs":        func(i int) []any { return []any{naming(crowdService(i), crowded)} },
	"Services with IPs that none gives": func(i int) []any { return []any{naming(crowdService(i), "198.18.9.9")} },
	"Services in a VPC that is not here": func(i int) []any {
		row := crowdService(i)
		row.Network = "absent"
		return []any{row}
	},
	"Services with node ports": func(i int) []any {
		row := crowdService(i)
		row.Ports[0].NodePort = uint16(1024 + i)
		return []any{row}
	},
	"EndpointSlices of one Service": func(i int) []any {
		row := crowdSlice(i, fmt.Sprintf("10.10.%d.%d", 2+i/250, 1+i%250))
		row.Service = "one"
		return []any{row}
	},
	"pods here": func(i int) []any {
		name := fmt.Sprint("crowd-", i)
		return []any{&store.Pod{
			Meta: store.Meta{UID: name}, Namespace: "red", Name: name, Tenant: "red", Node: "node1", NetworkProbes: true,
			HostPorts: []store.HostPort{{Protocol: "TCP", HostPort: 8080, Port: 80}},
		}}
	},
	"pods on the network of the node": func(i int) []any {
		name := fmt.Sprint("crowd-", i)
		return []any{&store.HostPod{Meta: store.Meta{UID: name}, Namespace: "red", Name: name, Node: "node1"}}
	},
	"addresses": func(i int) []any {
		addr := fmt.Sprintf("10.10.%d.%d", 2+i/250, 1+i%250)
		return []any{&store.Address{
			Meta: store.Meta{UID: "red" + addr}, Name: "red." + addr, VPC: "red", IP: ip(addr), MAC: "02:00:00:00:01:01",
			Node: "node2", Holder: store.Holder{Kind: store.HolderPod, Namespace: "red", Name: addr, UID: addr}, Set: ips(addr),
		}}
	},
	"AttachmentClaims": func(i int) []any {
		name := fmt.Sprint("crowd-", i)
		return []any{&multinet.Claim{
			Meta: store.Meta{UID: name}, Namespace: "red", Name: name, PodName: name, PodUID: name, Node: "node1", Interface: "net1",
			Driver: "macvlan", Network: lan("lan9"),
		}}
	},
	"ScaledEndpoints": func(i int) []any {
		name := fmt.Sprint("crowd-", i)
		return []any{&scaled.Endpoint{
			Meta: store.Meta{UID: name}, Name: name, ID: scaled.ID{Namespace: "red", Service: name, ServiceUID: name, VPC: "red", VPCUID: "red", Exposed: true},
			Head: &scaled.Head{
				Created: time.Unix(
					1000,
					0,
				), Tenant: "red", ClusterIPs: ips(fmt.Sprintf("10.97.%d.%d", i/250, 1+i%250)), InVPC: &scaled.VPC{VNI: 30, Prefixes: prefixes("10.10.0.0/16")},
				Ports: []store.ServicePort{{Protocol: "TCP", Port: 80, NodePort: uint16(1024 + i)}}, UsedRows: 1, UsedBackends: 1,
			},
		}}
	},
}

func crowdNetwork(i int, vpc string) *store.Network {
	name := fmt.Sprint("crowd-", i)
	return &store.Network{Meta: store.Meta{UID: name}, Namespace: "red", Name: name, Tenant: "red", Type: "vpc", VPC: vpc}
}

func crowdService(i int) *store.Service {
	name := fmt.Sprint("crowd-", i)
	return &store.Service{
		Meta: store.Meta{UID: name, Created: time.Unix(1000, 0)}, Namespace: "red", Name: name, ClusterIPs: ips(fmt.Sprintf("10.97.%d.%d", i/250, 1+i%250)),
		Ports: []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80}},
	}
}

func crowdSlice(i int, addr string) *store.EndpointSlice {
	name := fmt.Sprint("crowd-", i)
	return &store.EndpointSlice{
		Meta: store.Meta{UID: name}, Namespace: "red", Name: name, Service: name, Ports: []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 8080}},
		Endpoints: []store.Endpoint{{Addresses: ips(addr), Ready: true, Node: "node1", PodUID: "r1"}},
	}
}

func naming(row *store.Service, ip string) *store.Service {
	row.ExternalIPs = ips(ip)
	return row
}

// victimRows are rows of the tenant blue as they are in turns: each change is one of them.
func victimRows(n int) map[string]any {
	port := uint16(80 + n%2)
	service := func(name string, change func(*store.Service)) *store.Service {
		row := &store.Service{
			Meta: store.Meta{UID: name, Created: time.Unix(10, 0)}, Namespace: "blue", Name: name, ClusterIPs: ips("10.96.1.1"),
			Ports: []store.ServicePort{{Name: "web", Protocol: "TCP", Port: port}},
		}
		change(row)
		return row
	}
	return map[string]any{
		"a Service":      service("web", func(*store.Service) {}),
		"a node port":    service("port", func(row *store.Service) { row.Ports[0].NodePort = 30000 + port }),
		"an external IP": service("outside", func(row *store.Service) { naming(row, crowded) }),
		"an EndpointSlice": &store.EndpointSlice{
			Meta: store.Meta{UID: "web"}, Namespace: "blue", Name: "web", Service: "web",
			Ports: []store.ServicePort{{Name: "web", Protocol: "TCP", Port: port}}, Endpoints: []store.Endpoint{on("node1", "10.10.1.10")},
		},
		"a pod": &store.Pod{Meta: store.Meta{UID: "b1"}, Namespace: "blue", Name: "b1", Tenant: "blue", Node: "node1", NetworkProbes: n%2 == 0},
		"an address": &store.Address{
			Meta: store.Meta{UID: "far"}, Name: "blue.10.10.1.20", VPC: "blue", IP: ip("10.10.1.20"), MAC: fmt.Sprintf("02:00:00:00:01:0%d", n%2), Node: "node2",
			Holder: store.Holder{Kind: store.HolderPod, Namespace: "blue", Name: "far", UID: "far"}, Set: ips("10.10.1.20"),
		},
		"a Network": &store.Network{
			Meta:      store.Meta{UID: "bluedefault"},
			Namespace: "blue",
			Name:      "default",
			Tenant:    "blue",
			Type:      "vpc",
			VPC:       "blue",
			Ready:     n%2 == 0,
		},
		"the VPC": &store.VPC{
			Meta: store.Meta{UID: "blue"}, Name: "blue", VNI: 20, Prefixes: prefixes("10.10.0.0/16"), AllowedTenants: []string{"blue"}, Ready: n%2 == 0,
		},
		"a Subnet": &store.Subnet{
			Meta: store.Meta{
				UID: "blue1",
			}, Name: "blue1", VPC: "blue", ShortName: "blue1", Prefixes: prefixes("10.10.1.0/24"), Gateways: ips("10.10.1.1"), Ready: n%2 == 0,
		},
		"an external address": &external.Address{
			Meta: store.Meta{UID: "lb"}, IP: ip("198.18.1.1"), Pool: "lb", Node: []string{"node1", "node2"}[n%2],
			Holder: store.Holder{Kind: store.HolderService, Namespace: "blue", Name: "web", UID: "web"},
		},
	}
}

// putAll puts rows of any kinds in one transaction.
func (w *world) putAll(t testing.TB, rows ...any) {
	t.Helper()
	w.put(t, func(tx store.Tx) error {
		for _, row := range rows {
			if err := kindOf(row).Put(tx, row); err != nil {
				return fmt.Errorf("put %T: %w", row, err)
			}
		}
		return nil
	})
}

// newCrowd is a node with a pod of the victim, which has a port of the node, and with a pod of
// a tenant that has so many rows of one sort.
func newCrowd(t testing.TB, rows func(i int) []any, count int) *world {
	t.Helper()
	w := scaledTenants(t)
	w.records[0].Pod.Namespace, w.records[0].HostPorts = "blue", []journal.HostPort{{Protocol: "TCP", HostPort: 8080, Port: 80}}
	w.put(t, vpc("absent", 40, "10.10.0.0/16"), allow("absent", "red"), network("red", "absent", "absent"))
	w.putAll(
		t,
		&external.HostAccess{
			Meta:           store.Meta{UID: "ports"},
			Name:           "ports",
			AllowedTenants: []string{"*"},
			Ports:          []external.HostPortRange{{First: 8080, Last: 8080}},
		},
		&external.Pool{
			Meta: store.Meta{UID: "pool"}, Name: "pool", AllowedTenants: []string{"*"}, ForExternalIPs: true, Ready: true,
			Ranges: []store.AddrRange{{First: ip(crowded), Last: ip(crowded)}},
		},
	)
	w.putAll(t, slices.Concat(crowdOf(rows, count), valuesOf(victimRows(0)))...)
	return w
}

func crowdOf(rows func(i int) []any, count int) (list []any) {
	for i := range count {
		list = append(list, rows(i)...)
	}
	return list
}

func valuesOf(rows map[string]any) (list []any) {
	for _, row := range rows {
		list = append(list, row)
	}
	return list
}

// cost counts the allocations of a plan. It stands for the rows that the plan reads and makes.
type cost struct{ objects, bytes uint64 }

// costOfChange plans after changes of a victim's row, and returns the least cost of some.
func (w *world) costOfChange(t testing.TB, p *Planner, what string, change ...func(*Config)) cost {
	t.Helper()
	least := cost{^uint64(0), ^uint64(0)}
	for n := 1; n <= 6; n++ {
		w.putAll(t, victimRows(n)[what])
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w.plan(p, change...)
		runtime.ReadMemStats(&after)
		least.objects, least.bytes = min(least.objects, after.Mallocs-before.Mallocs), min(least.bytes, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// TestPlanCost_TenantCrowd_OthersUnaffected: a tenant has a pod here and any number of rows of one
// sort. A change of another tenant's row costs as much as without them. After a
// change of a frontend, the planner copies the list of all frontends. Node ports and pools limit
// its length.
func TestPlanCost_TenantCrowd_OthersUnaffected(t *testing.T) {
	const few, perFrontend = 20, 10
	many := soak.Or(t, 10_000, 2_000)
	for sort, rows := range crowds {
		t.Run(sort, func(t *testing.T) {
			adapt := func(cfg *Config) { cfg.NodePorts, cfg.ScaledEndpoints = true, sort == "ScaledEndpoints" }
			small, large, one, other := newCrowd(t, rows, few), newCrowd(t, rows, many), &Planner{}, &Planner{}
			small.plan(one, adapt)
			large.plan(other, adapt)
			for what := range victimRows(0) {
				with, without := large.costOfChange(t, other, what, adapt), small.costOfChange(t, one, what, adapt)
				if with.objects > without.objects+without.objects/4+40 || with.bytes > without.bytes+without.bytes/4+4096+perFrontend*uint64(large.frontends(other)) {
					t.Errorf("a plan after a change of %s allocates %d objects, %d bytes with %d rows of another tenant, and %d, %d with %d",
						what, with.objects, with.bytes, many, without.objects, without.bytes, few)
				}
			}
		})
	}
}

// frontends returns how many frontends the last plan has.
func (w *world) frontends(p *Planner) int { return len(p.services.Frontends()) }

// TestPlan_CrowdSharesExternalIP_GivenOnce: the owner of an address is not looked for again by each of
// the Services that name it, and a change of one that is not the owner's plans no other.
func TestPlan_CrowdSharesExternalIP_GivenOnce(t *testing.T) {
	w, p := newCrowd(t, crowds["Services with external IPs"], 500), &Planner{}
	w.plan(p, serveNodePorts)
	w.costOfChange(t, p, "an external IP", serveNodePorts)
	toggled := crowdService(7)
	for n, named := range [][]netip.Addr{nil, ips(crowded), nil} {
		row := *toggled
		row.ExternalIPs = named
		w.putAll(t, &row)
		var planned map[serviceplan.Ref]bool
		w.store.View(func(tx store.ReadTx) { planned = p.compare(tx, w.input(serveNodePorts)).services.Refs })
		w.plan(p, serveNodePorts)
		if len(planned) != 1 {
			t.Errorf("change %d of one Service plans %d", n, len(planned))
		}
	}
}

// BenchmarkAPlanBesideACrowd plans from nothing, and after a change of another tenant's row, with
// 10,000 rows of a tenant. Run it with -benchtime 10x.
func BenchmarkAPlanBesideACrowd(b *testing.B) {
	for sort, rows := range crowds {
		adapt := func(cfg *Config) { cfg.NodePorts, cfg.ScaledEndpoints = true, sort == "ScaledEndpoints" }
		w, p := newCrowd(b, rows, 10_000), &Planner{}
		b.Run(sort+"/from nothing", func(b *testing.B) {
			for b.Loop() {
				w.plan(&Planner{}, adapt)
			}
		})
		w.plan(p, adapt)
		b.Run(sort+"/after a change of its own Network", func(b *testing.B) {
			measure(b, func(n int) {
				w.putAll(
					b,
					&store.Network{Meta: store.Meta{UID: "reddefault"}, Namespace: "red", Name: "default", Tenant: "red", Type: "vpc", VPC: []string{"absent", "red"}[n%2]},
				)
			}, func() { w.plan(p, adapt) })
		})
		for what := range victimRows(0) {
			b.Run(sort+"/after a change of "+what, func(b *testing.B) {
				measure(b, func(n int) { w.putAll(b, victimRows(n)[what]) }, func() { w.plan(p, adapt) })
			})
		}
	}
}
