// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/services"
)

func service(namespace, name, network string, vips ...string) *store.Service {
	return &store.Service{
		Meta:      operatortest.Meta("uid-"+namespace+"-"+name, 0),
		Namespace: namespace, Name: name, Network: network, ClusterIPs: operatortest.Addrs(vips...),
		Ports: []store.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
	}
}

var http80 = store.ServicePort{Name: "http", Protocol: "TCP", Port: 80}

// verdict judges a Service with one port, in a VPC or network.
func verdict(tx store.ReadTx, at services.Site, web *store.Service, port store.ServicePort) *services.Verdict {
	row := *web
	row.Ports = []store.ServicePort{port}
	return services.JudgeIn(tx, services.Rules{DefaultVPC: at.DefaultVPC, Knowledge: known{}}, at.VPC, &row)
}

func namespace(name, tenant string) *store.Namespace {
	return &store.Namespace{Meta: operatortest.Meta("uid-"+name, 0), Name: name, Tenant: tenant}
}

func TestServiceVPC_Network_VPCOfNetwork(t *testing.T) {
	flat := operatortest.Network("blue", "blue-a", "flat", "blue-vpc", 6)
	flat.Type = "flat"
	closed := operatortest.VPC("closed", 4, nil, "10.0.0.0/16")
	unready := operatortest.VPC("unready", 5, []string{"blue"}, "10.0.0.0/16")
	unready.Ready = false
	s := operatortest.New(
		t,
		operatortest.VPC("alioth", 1, []string{"*"}, "10.244.0.0/16"),
		operatortest.VPC("blue-vpc", 2, []string{"blue"}, "10.0.0.0/16"),
		operatortest.VPC("red-vpc", 3, []string{"red"}, "10.0.0.0/16"),
		closed, unready,
		namespace("kube-system", "ns:kube-system"), namespace("blue-a", "blue"), namespace("blue-b", "blue"), namespace("red-a", "red"),
		operatortest.Network("blue", "blue-a", "default", "blue-vpc", 1),
		operatortest.Network("blue", "blue-a", "old", "unready", 1),
		operatortest.Network("blue", "blue-a", "forbidden", "closed", 1),
		operatortest.Network("red", "red-a", "shop", "red-vpc", 1),
		operatortest.Network("red", "red-a", "stolen", "blue-vpc", 1),
		flat,
		service("kube-system", "metrics", "", "10.96.0.1"),
		service("blue-a", "named", "default", "10.96.0.2"),
		service("blue-b", "unnamed", "", "10.96.0.3"),
		service("blue-b", "foreign", "shop", "10.96.0.4"),
		service("blue-b", "headless", ""),
		service("blue-a", "flat", "flat", "10.96.0.5"),
		service("blue-a", "running", "old", "10.96.0.6"),
		service("blue-a", "forbidden", "forbidden", "10.96.0.7"),
		service("red-a", "shop", "shop", "10.96.0.8"),
		service("red-a", "stolen", "stolen", "10.96.0.9"),
		service("red-a", "elsewhere", "", "10.96.0.10"),
		service("nowhere", "orphan", "", "10.96.0.11"),
	)
	want := map[string][]string{
		"alioth":   {"kube-system/metrics", "red-a/elsewhere"},
		"blue-vpc": {"blue-a/named", "blue-b/unnamed"},
		"red-vpc":  {"red-a/shop"},
		"closed":   nil,
		"unready":  {"blue-a/running"},
	}
	s.View(func(tx store.ReadTx) {
		for vpc, want := range want {
			var got []string
			for _, row := range services.Services(tx, store.GetVPC(tx, vpc), "alioth") {
				got = append(got, row.Namespace+"/"+row.Name)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", vpc, diff)
			}
		}
	})
}

// podOf has all addresses of held. endpoint names this pod.
var podOf = operatortest.Pod("blue", "blue-a", "pod", "", "")

// held returns an Address object of blue-vpc on a node.
func held(ip, node string) *store.Address { return heldBy(podOf, ip, node) }

func heldBy(pod *store.Pod, ip, node string) *store.Address {
	row := operatortest.Address("blue-vpc", "net1", ip, pod)
	row.Node = node
	return row
}

func endpoint(ready, terminating bool, ips ...string) store.Endpoint {
	// The node in a slice is a claim of its writer.
	return store.Endpoint{Addresses: operatortest.Addrs(ips...), Ready: ready, Terminating: terminating, Node: "node-1", PodUID: podOf.UID}
}

func slice(name string, port store.ServicePort, endpoints ...store.Endpoint) *store.EndpointSlice {
	return &store.EndpointSlice{
		Meta: operatortest.Meta("uid-"+name, 0), Namespace: "blue-a", Name: name, Service: "web",
		Ports: []store.ServicePort{port}, Endpoints: endpoints,
	}
}

// hinted returns a ready endpoint that is meant for clients of some nodes or zones.
func hinted(ip string, nodes, zones []string) store.Endpoint {
	e := endpoint(true, false, ip)
	e.ForNodes, e.ForZones = nodes, zones
	return e
}

// site is the site of the clients of these tests.
var site = services.Site{VPC: "blue-vpc", DefaultVPC: "default"}

func TestBackends_Hints_ChooseAmongUsable(t *testing.T) {
	http := store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080}
	here, there, a, b := []string{"node-1"}, []string{"node-2"}, []string{"zone-a"}, []string{"zone-b"}
	cases := map[string]struct {
		zone      string
		local     bool
		endpoints []store.Endpoint
		want      []string
	}{
		"those of the zone": {
			zone: "zone-a", endpoints: []store.Endpoint{hinted("10.0.0.1", nil, a), hinted("10.0.0.2", nil, append(b, a...)), hinted("10.0.0.3", nil, b)},
			want: []string{"10.0.0.1:8080", "10.0.0.2:8080"},
		},
		"those of the node before those of the zone": {
			zone: "zone-a", endpoints: []store.Endpoint{hinted("10.0.0.1", here, a), hinted("10.0.0.2", there, a)},
			want: []string{"10.0.0.1:8080"},
		},
		"those of the zone where none is for the node": {
			zone: "zone-a", endpoints: []store.Endpoint{hinted("10.0.0.1", there, b), hinted("10.0.0.2", there, a)},
			want: []string{"10.0.0.2:8080"},
		},
		"all where none is for the zone": {
			zone: "zone-c", endpoints: []store.Endpoint{hinted("10.0.0.1", nil, a), hinted("10.0.0.2", nil, b)},
			want: []string{"10.0.0.1:8080", "10.0.0.2:8080"},
		},
		"all where one has no hint": {
			zone: "zone-a", endpoints: []store.Endpoint{hinted("10.0.0.1", nil, a), hinted("10.0.0.2", nil, nil)},
			want: []string{"10.0.0.1:8080", "10.0.0.2:8080"},
		},
		"all on a node without a zone": {
			endpoints: []store.Endpoint{hinted("10.0.0.1", nil, a), hinted("10.0.0.2", nil, b)},
			want:      []string{"10.0.0.1:8080", "10.0.0.2:8080"},
		},
		"whatever those say that don't count": {
			zone:      "zone-a",
			endpoints: []store.Endpoint{hinted("10.0.0.1", nil, a), hinted("10.0.0.2", nil, b), hinted("10.0.0.9", nil, nil), endpoint(false, true, "10.0.0.3")},
			want:      []string{"10.0.0.1:8080"},
		},
		"not for a Service that stays on the node": {
			zone: "zone-a", local: true, endpoints: []store.Endpoint{hinted("10.0.0.1", nil, b), hinted("10.0.0.3", nil, a)},
			want: []string{"10.0.0.1:8080"},
		},
		"not among those that shut down": {
			zone: "zone-a", endpoints: []store.Endpoint{
				{Addresses: operatortest.Addrs("10.0.0.1"), Terminating: true, ForZones: a, PodUID: podOf.UID},
				{Addresses: operatortest.Addrs("10.0.0.2"), Terminating: true, ForZones: b, PodUID: podOf.UID},
			},
			want: []string{"10.0.0.1:8080", "10.0.0.2:8080"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			web := service("blue-a", "web", "", "10.96.0.1")
			web.NodeLocal = c.local
			s := operatortest.New(t, web, slice("a", http, c.endpoints...),
				&store.Node{Meta: operatortest.Meta("uid-node-1", 0), Name: "node-1", Zone: c.zone},
				held("10.0.0.1", "node-1"), held("10.0.0.2", "node-1"), held("10.0.0.3", "node-2"))
			s.View(func(tx store.ReadTx) {
				var got []string
				for _, backend := range verdict(tx, site, web, http80).Reached(tx, "node-1", http80, ipfamily.IPv4) {
					got = append(got, backend.String())
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("backends %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestBackends_Slices_OnlyAddressesOfVPC(t *testing.T) {
	http := store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080}
	cases := map[string]struct {
		change func(*store.Service)
		family ipfamily.Family
		slices []any
		want   []string
		out    []string
	}{
		"ready ones, from all slices, each once, with the port of each slice": {
			slices: []any{
				slice("b", http, endpoint(true, false, "10.0.0.2"), endpoint(true, false, "10.0.0.1")),
				slice("a", http, endpoint(true, false, "10.0.0.1")),
				slice("c", store.ServicePort{Name: "http", Protocol: "TCP", Port: 9090}, endpoint(true, false, "10.0.0.3")),
			},
			want: []string{"10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:9090"},
		},
		"each address of an endpoint": {
			slices: []any{slice("a", http, endpoint(true, false, "10.0.0.2", "10.0.0.1"))},
			want:   []string{"10.0.0.1:8080", "10.0.0.2:8080"},
		},
		"nobody's address, and one of another VPC": {
			slices: []any{slice("a", http, endpoint(true, false, "10.0.0.1", "10.0.0.9", "192.0.2.1"))},
			want:   []string{"10.0.0.1:8080"}, out: []string{"10.0.0.9", "192.0.2.1"},
		},
		"not those that are neither ready nor serving": {
			slices: []any{slice("a", http, endpoint(false, false, "10.0.0.1", "10.0.0.9"), endpoint(false, true, "10.0.0.2"), endpoint(true, false, "10.0.0.3"))},
			want:   []string{"10.0.0.3:8080"},
		},
		"those that shut down where no other is left": {
			slices: []any{slice("a", http, endpoint(false, false, "10.0.0.1"), endpoint(false, true, "10.0.0.2"))},
			want:   []string{"10.0.0.2:8080"},
		},
		"no other port, protocol or open port": {
			slices: []any{
				slice("a", store.ServicePort{Name: "admin", Protocol: "TCP", Port: 1}, endpoint(true, false, "10.0.0.1")),
				slice("b", store.ServicePort{Name: "http", Protocol: "UDP", Port: 1}, endpoint(true, false, "10.0.0.1")),
				slice("c", store.ServicePort{Name: "http", Protocol: "TCP"}, endpoint(true, false, "10.0.0.1")),
			},
		},
		"one family": {
			family: ipfamily.IPv6,
			slices: []any{slice("a", http, endpoint(true, false, "10.0.0.1", "fd10::1"))},
			want:   []string{"[fd10::1]:8080"},
		},
		"not a load balancer's address": {
			slices: []any{
				slice("a", http, endpoint(true, false, "10.0.0.1", "10.0.8.1")),
				operatortest.ServiceAddress("blue-vpc", "lb", "10.0.8.1", service("blue-a", "other", "", "10.96.0.2")),
			},
			want: []string{"10.0.0.1:8080"}, out: []string{"10.0.8.1"},
		},
		"on the node, as the Address objects have it": {
			change: func(s *store.Service) { s.NodeLocal = true },
			slices: []any{slice("a", http, endpoint(true, false, "10.0.0.1", "10.0.0.3"))},
			want:   []string{"10.0.0.1:8080"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			web := service("blue-a", "web", "", "10.96.0.1")
			if c.change != nil {
				c.change(web)
			}
			elsewhere := operatortest.Address("red-vpc", "net1", "10.0.0.9", operatortest.Pod("red", "red-a", "web", "", ""))
			rows := append([]any{
				operatortest.VPC("blue-vpc", 2, []string{"blue"}, "10.0.0.0/16"), web, elsewhere,
				held("10.0.0.1", "node-1"), held("10.0.0.2", "node-1"), held("10.0.0.3", "node-2"), held("fd10::1", "node-1"),
			}, c.slices...)
			operatortest.New(t, rows...).View(func(tx store.ReadTx) {
				var got []string
				for _, backend := range verdict(tx, site, web, http80).Reached(tx, "node-1", http80, max(c.family, ipfamily.IPv4)) {
					got = append(got, backend.String())
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("backends %v, want %v", got, c.want)
				}
				var out []netip.Addr
				for _, ip := range c.out {
					out = append(out, netip.MustParseAddr(ip))
				}
				if left := services.LeftOut(tx, site, web); !slices.Equal(left, out) {
					t.Errorf("left out %v, want %v", left, out)
				}
			})
		})
	}
}

func TestVirtualAddresses_Service_ClusterIPsAndClaimed(t *testing.T) {
	lb := service("blue-a", "web", "", "10.96.0.1", "fd96::1")
	lb.LoadBalancer = store.LoadBalancerVPC
	external := service("blue-a", "edge", "", "10.96.0.2")
	external.LoadBalancer = store.LoadBalancerExternal
	successor := service("blue-a", "web", "", "10.96.0.1")
	successor.UID, successor.LoadBalancer = "another", store.LoadBalancerVPC
	leaving := operatortest.ServiceAddress("blue-vpc", "lb", "10.0.8.9", lb)
	leaving.Deleting = true
	pretender := operatortest.Address("blue-vpc", "net1", "10.0.0.7", &store.Pod{Meta: store.Meta{UID: lb.UID}, Namespace: "blue-a", Name: "web"})
	misnamed := operatortest.ServiceAddress("blue-vpc", "lb", "10.0.8.4", lb)
	misnamed.Holder.Namespace = "blue-b"
	s := operatortest.New(
		t, leaving, pretender, misnamed,
		operatortest.ServiceAddress("blue-vpc", "lb", "fd10::8:1", lb, "10.0.8.1"), operatortest.ServiceAddress("blue-vpc", "lb", "10.0.8.1", lb, "fd10::8:1"),
		operatortest.ServiceAddress("red-vpc", "lb", "10.0.8.2", lb), operatortest.ServiceAddress("blue-vpc", "lb", "10.0.8.3", external),
	)
	s.View(func(tx store.ReadTx) {
		for name, c := range map[string]struct {
			service *store.Service
			want    []string
		}{
			"claimed":               {lb, []string{"10.96.0.1", "fd96::1", "10.0.8.1", "fd10::8:1"}},
			"claimed, not any more": {external, []string{"10.96.0.2"}},
			"a predecessor's":       {successor, []string{"10.96.0.1"}},
		} {
			var got []string
			for _, ip := range services.VIPs(tx, "blue-vpc", c.service) {
				got = append(got, ip.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	})
}

// A slice of the operator names the domain of its addresses, and each endpoint is for its
// pod alone.
func TestBackends_SliceOfDomain_OnlyItsPods(t *testing.T) {
	http := store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080}
	mine, other := operatortest.Pod("blue", "blue-a", "mine", "", ""), operatortest.Pod("blue", "blue-a", "other", "", "")
	for name, c := range map[string]struct {
		domain string
		holder *store.Pod
		named  bool
		want   int
	}{
		"of the VPC":                          {"blue-vpc", mine, true, 1},
		"of the VPC, a later holder's":        {"blue-vpc", other, true, 0},
		"of another VPC":                      {"red-vpc", mine, true, 0},
		"of a network":                        {"8f1c.net", mine, true, 0},
		"of no domain, by hand":               {"", other, false, 1},
		"of a network, though it is by hand":  {"8f1c.net", mine, false, 0},
		"of a network, and no pod's, outside": {"8f1c.net", nil, true, 0},
		"of the VPC, and no pod's, outside":   {"blue-vpc", nil, true, 0},
		"by hand, outside":                    {"", nil, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			web, vpc := service("blue-a", "web", "", "10.96.0.1"), operatortest.VPC("blue-vpc", 2, []string{"*"}, "10.0.0.0/16")
			web.Selectorless, vpc.EgressMasquerade = true, true
			ip := "192.0.2.9"
			rows := []any{vpc, web, namespace("blue-a", "blue")}
			if c.holder != nil {
				ip = "10.0.0.1"
				rows = append(rows, heldBy(c.holder, ip, "node-1"))
			}
			e := endpoint(true, false, ip)
			e.PodUID, e.Named = mine.UID, c.named
			list := slice("a", http, e)
			list.Domain = c.domain
			operatortest.New(t, append(rows, list)...).View(func(tx store.ReadTx) {
				port := http80
				if got := verdict(tx, blueSite, web, port).Reached(tx, "node-1", port, ipfamily.IPv4); len(got) != c.want {
					t.Errorf("backends %v, want %d", got, c.want)
				}
				if usage := services.UsageOf(tx, "blue-vpc", web); c.domain != "" && c.domain != "blue-vpc" && usage.Backends != 0 {
					t.Errorf("it takes %+v of the VPC", usage)
				}
				left := services.LeftOut(tx, blueSite, web)
				if foreign := c.domain != "" && c.domain != "blue-vpc"; foreign && len(left) > 0 {
					t.Errorf("left out: %v, which are not meant for the VPC", left)
				}
			})
		})
	}
}

// TestServiceNetworks_Slices_NetworksTheyName: a slice that names no network has addresses of a
// VPC. In a network, other pods may have these addresses.
func TestServiceNetworks_Slices_NetworksTheyName(t *testing.T) {
	http := store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080}
	network := store.NetworkRef{Kind: "DanmNet", Namespace: "blue-a", Name: "lan", UID: "lan"}
	inLAN := operatortest.Address("", "", "10.0.0.1", podOf)
	inLAN.Network, inLAN.Name = network, "lan.net.10.0.0.1"
	named := func(name, domain string, ips ...string) *store.EndpointSlice {
		end := endpoint(true, false, ips...)
		end.Named = domain != ""
		row := slice(name, http, end)
		row.Domain = domain
		return row
	}
	for name, c := range map[string]struct {
		slices   []any
		vips     []string
		domains  []string
		backends int
	}{
		"a slice of the network":         {[]any{named("a", "lan.net", "10.0.0.1")}, []string{"10.96.0.1"}, []string{"lan.net"}, 1},
		"an address that nobody has":     {[]any{named("a", "lan.net", "10.0.0.2")}, []string{"10.96.0.1"}, []string{"lan.net"}, 0},
		"a slice that tells nothing":     {[]any{named("a", "", "10.0.0.1")}, []string{"10.96.0.1"}, nil, 0},
		"a slice of a VPC":               {[]any{named("a", "blue-vpc", "10.0.0.1")}, []string{"10.96.0.1"}, nil, 0},
		"slices of two networks":         {[]any{named("b", "wan.net"), named("a", "lan.net", "10.0.0.1"), named("c", "lan.net")}, []string{"10.96.0.1"}, []string{"lan.net", "wan.net"}, 1},
		"a Service without ClusterIP":    {[]any{named("a", "lan.net", "10.0.0.1")}, nil, nil, 1},
		"a network of another namespace": {[]any{named("a", "theirs.net", "10.0.0.1")}, []string{"10.96.0.1"}, nil, 0},
		"a definition elsewhere":         {[]any{named("a", "definition.net", "10.0.0.1")}, []string{"10.96.0.1"}, []string{"definition.net"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			web := service("blue-a", "web", "", c.vips...)
			web.Selectorless = true
			s := operatortest.New(t, append([]any{
				web, namespace("blue-a", "blue"), inLAN, numbered(1, network),
				numbered(2, store.NetworkRef{Kind: multinet.KindTenantNetwork, Namespace: "red", Name: "lan", UID: "theirs"}),
				numbered(3, store.NetworkRef{Kind: multinet.KindDefinition, Namespace: "blue-b", Name: "lan", UID: "definition"}),
			}, c.slices...)...)
			s.View(func(tx store.ReadTx) {
				if diff := cmp.Diff(c.domains, services.Outside(tx, web)); diff != "" {
					t.Errorf("networks (-want +got):\n%s", diff)
				}
				at := services.Site{VPC: "lan.net", DefaultVPC: "default"}
				got := verdict(tx, at, web, http80).Reached(tx, "node-1", http80, ipfamily.IPv4)
				if len(got) != c.backends || len(got) > 0 && (got[0].Outside || got[0].String() != "10.0.0.1:8080") {
					t.Errorf("backends %v, want %d", got, c.backends)
				}
			})
		})
	}
}

// numbered returns the claim of a number for a network.
func numbered(number uint32, network store.NetworkRef) *multinet.DomainClaim {
	return &multinet.DomainClaim{Meta: operatortest.Meta("number-"+network.UID, 0), Number: number, Network: network}
}

func TestServiceNetworks_SliceOfOtherNamespace_NoNetwork(t *testing.T) {
	row := slice("a", store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080})
	row.Domain = "lan.net"
	s := operatortest.New(t, row) // of the namespace blue-a
	s.View(func(tx store.ReadTx) {
		for _, c := range []struct {
			network store.NetworkRef
			want    bool
		}{
			{store.NetworkRef{Kind: multinet.KindDanmNet, Namespace: "blue-a", UID: "lan"}, true},
			{store.NetworkRef{Kind: multinet.KindDanmNet, Namespace: "blue-a", UID: "wan"}, false},
			{store.NetworkRef{Kind: multinet.KindDanmNet, Namespace: "red", UID: "lan"}, false},
			{store.NetworkRef{Kind: multinet.KindTenantNetwork, Namespace: "red", UID: "lan"}, false},
			{store.NetworkRef{Kind: multinet.KindClusterNetwork, UID: "lan"}, true},
			{store.NetworkRef{Kind: multinet.KindDefinition, Namespace: "red", UID: "lan"}, true},
		} {
			if got := services.InNetwork(tx, c.network); got != c.want {
				t.Errorf("%s with UID %s: %t, want %t", c.network, c.network.UID, got, c.want)
			}
		}
	})
}
