// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/interfaces"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// network returns a network of DANM that is Ready, on the device ens4.
func network(kind, namespace, name string, change ...func(*multinet.Network)) *multinet.Network {
	n := &multinet.Network{
		Meta: operatortest.Meta("uid-"+kind+"-"+name, 0), Ref: multinet.Ref{Group: "danm.k8s.io", Kind: kind, Namespace: namespace, Name: name},
		Type: "macvlan", HostDevice: "ens4", Ready: true,
		V4: multinet.Range{
			Prefix: netip.MustParsePrefix("10.20.0.0/24"),
			Pool:   store.AddrRange{First: netip.MustParseAddr("10.20.0.10"), Last: netip.MustParseAddr("10.20.0.20")},
		},
		V6: multinet.Range{Prefix: netip.MustParsePrefix("fd20::/64"), EUI64: true},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

func danmNet(name string, change ...func(*multinet.Network)) *multinet.Network {
	return network(multinet.KindDanmNet, "a", name, change...)
}

func withRoute(dst, gateway string) func(*multinet.Network) {
	return func(n *multinet.Network) {
		n.Routes = append(n.Routes, multinet.Route{Dst: netip.MustParsePrefix(dst), Gateway: netip.MustParseAddr(gateway)})
	}
}

func world(rows ...any) []any {
	return append(rows,
		operatortest.VPC("v", 1, []string{"blue"}, "10.0.0.0/16"), operatortest.Subnet("s1", "v", "net1", 0, "10.0.1.0/24"),
		operatortest.VPC("foreign", 2, []string{"red"}, "10.0.0.0/16"), operatortest.Subnet("s2", "foreign", "net1", 0, "10.0.1.0/24"),
		operatortest.VPC("default", 3, []string{"*"}, "10.244.0.0/16"), operatortest.Subnet("default", "default", "default", 0, "10.244.0.0/16"),
	)
}

// decide returns the desired attachments of a pod a/p of tenant blue in short, each as
// "<interface> <kind> <network> <IPs>", and the refusal as "<reason>: <message>".
func decide(t *testing.T, annotation string, rows []any, change ...func(*store.Pod)) ([]pod.Desired, string) {
	t.Helper()
	return decideWith(t, interfaces.Config{}, annotation, rows, change...)
}

// decideWith is decide with some of the configuration; the rest is the same for all.
func decideWith(t *testing.T, cfg interfaces.Config, annotation string, rows []any, change ...func(*store.Pod)) ([]pod.Desired, string) {
	t.Helper()
	p := operatortest.Pod("blue", "a", "p", "", "")
	p.Interfaces, p.InterfacesKey = annotation, annotations.InterfacesKeyIO
	for _, f := range change {
		f(p)
	}
	var desired []pod.Desired
	var refusal *tenancy.Refusal
	operatortest.New(t, append(rows, p)...).View(func(tx store.ReadTx) {
		cfg.Annotations, cfg.Delegation = []string{interfaces.AnnotationDANM, interfaces.AnnotationNPWG}, true
		cfg.DefaultVPC, cfg.VPCTypes, cfg.Kinds, cfg.Limit = "default", []string{"flannel"}, []string{"macvlan", "sriov"}, 4
		desired, refusal = interfaces.Source(cfg)(tx, p)
	})
	if refusal != nil {
		return nil, refusal.Reason + ": " + refusal.Message
	}
	return desired, ""
}

func short(desired []pod.Desired) (texts []string) {
	for _, w := range desired {
		place := w.VPC
		if !w.InVPC() {
			place = w.Outside.Path()
		}
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s %s %s %v %v", w.Interface, w.Kind, place, w.IPs, w.Families)))
	}
	return texts
}

func TestInterfaceList_Elements_InterfacesMatch(t *testing.T) {
	rows := world(
		danmNet("internal", func(n *multinet.Network) { n.Prefix = "int" }), network(multinet.KindTenantNetwork, "a", "internal"),
		network(multinet.KindClusterNetwork, "", "external", func(n *multinet.Network) { n.AllowedNamespaces = []string{"a"} }),
		danmNet("management", func(n *multinet.Network) { n.Type = "flannel" }),
		operatortest.Network("blue", "a", "default", "v", 0),
	)
	for _, tc := range []struct {
		name, annotation string
		want             []string
	}{
		{
			"three APIs, each family by itself",
			`[{"network":"internal","ip":"dynamic"},{"tenantNetwork":"internal","ip":"none","ip6":"dynamic"},{"clusterNetwork":"external","ip":"10.20.0.200/24","ip6":"fd20::7"}]`,
			[]string{"eth0 macvlan DanmNet/a/internal [] IPv4", "eth1 macvlan TenantNetwork/a/internal [] IPv6", "eth2 macvlan ClusterNetwork/external [10.20.0.200 fd20::7] IPv4 and IPv6"},
		},
		{
			"the demo of DANM: management is the pod's VPC", `[{"network":"management","ip":"dynamic"},{"network":"internal","ip":"dynamic"}]`,
			[]string{"eth0 veth v [] IPv4 and IPv6", "int1 macvlan DanmNet/a/internal [] IPv4"},
		},
		{
			"one network more than once, and L2", `[{"network":"internal","ip":"dynamic"},{"network":"internal"},{"network":"internal","ip":"none"}]`,
			[]string{"eth0 macvlan DanmNet/a/internal [] IPv4", "int1 macvlan DanmNet/a/internal [] IPv4 and IPv6", "int2 macvlan DanmNet/a/internal [] IPv4 and IPv6"},
		},
		{
			"a VPC by its name", `[{"vpc":"v","subnet":"net1","ip":"10.0.1.9"},{"vpc":"default"}]`,
			[]string{"eth0 veth v [10.0.1.9] IPv4 and IPv6", "eth1 veth default [] IPv4 and IPv6"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			desired, refusal := decide(t, tc.annotation, rows)
			if diff := cmp.Diff(tc.want, short(desired)); refusal != "" || diff != "" {
				t.Errorf("refused with %q (-want +got):\n%s", refusal, diff)
			}
		})
	}
}

func TestInterfaces_NoList_DefaultNetwork(t *testing.T) {
	v6 := func(n *multinet.Network) { n.V4 = multinet.Range{} }
	danm, tenant, cluster := danmNet("default"), network(multinet.KindTenantNetwork, "a", "default"), network(multinet.KindClusterNetwork, "", "default", v6)
	arktos := operatortest.Network("blue", "b", "default", "v", 0)
	named := operatortest.Network("blue", "a", "n", "v", 0)
	for _, tc := range []struct {
		name string
		rows []any
		pod  func(*store.Pod)
		want string
	}{
		{"a DanmNet precedes all others", []any{danm, tenant, cluster, arktos}, nil, "eth0 macvlan DanmNet/a/default [] IPv4"},
		{"then a TenantNetwork", []any{tenant, cluster, arktos}, nil, "eth0 macvlan TenantNetwork/a/default [] IPv4"},
		{"then the tenant's Network", []any{cluster, arktos}, nil, "eth0 veth v [] IPv4 and IPv6"},
		{"then a ClusterNetwork, here with IPv6 alone", []any{cluster}, nil, "eth0 macvlan ClusterNetwork/default [] IPv6"},
		{"then the default VPC", nil, nil, "eth0 veth default [] IPv4 and IPv6"},
		{"the label of the pod precedes them", []any{danm, named}, func(p *store.Pod) { p.Network = "n" }, "eth0 veth v [] IPv4 and IPv6"},
		{"an empty list is none", []any{danm}, func(p *store.Pod) { p.Interfaces = " [] " }, "eth0 macvlan DanmNet/a/default [] IPv4"},
		{"other namespaces have their own", []any{danm}, func(p *store.Pod) { p.Namespace = "b" }, "eth0 veth default [] IPv4 and IPv6"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			desired, refusal := decide(t, "", world(tc.rows...), append([]func(*store.Pod){func(*store.Pod) {}}, nonNil(tc.pod)...)...)
			if diff := cmp.Diff([]string{tc.want}, short(desired)); refusal != "" || diff != "" {
				t.Errorf("refused with %q (-want +got):\n%s", refusal, diff)
			}
		})
	}
}

func nonNil(f func(*store.Pod)) []func(*store.Pod) {
	if f == nil {
		return nil
	}
	return []func(*store.Pod){f}
}

func TestInterfaceList_OneRefused_NoneGiven(t *testing.T) {
	changed := danmNet("changed", func(n *multinet.Network) { n.Unexamined = true })
	unready := danmNet("unready", func(n *multinet.Network) { n.Ready, n.Message = false, "its range overlaps another" })
	leaving := danmNet("leaving", func(n *multinet.Network) { n.Deleting = true })
	closed := network(multinet.KindClusterNetwork, "", "closed", func(n *multinet.Network) { n.AllowedNamespaces = []string{"b"} })
	table := danmNet("table", func(n *multinet.Network) { n.Table = 200 })
	long := danmNet("long", func(n *multinet.Network) { n.Prefix = "fifteenletters0" })
	other := danmNet("other", func(n *multinet.Network) { n.Type = "calico" })
	out, out6 := danmNet("out", withRoute("0.0.0.0/0", "10.20.0.1")), danmNet("out6", withRoute("::/0", "fd20::1"))
	out2 := danmNet("out2", withRoute("0.0.0.0/0", "10.20.0.2"))
	twin := network(multinet.KindDanmNet, "b", "theirs")
	rows := world(
		danmNet("plain"),
		danmNet("management", func(n *multinet.Network) { n.Type = "flannel" }),
		changed,
		unready,
		leaving,
		closed,
		table,
		long,
		other,
		out,
		out2,
		out6,
		twin,
		fast(),
	)
	probed := func(p *store.Pod) { p.NetworkProbes = true }
	ported := func(p *store.Pod) { p.HostPorts = []store.HostPort{{Protocol: "TCP", HostPort: 80, Port: 80}} }
	for _, tc := range []struct {
		name, annotation, reason, text string
		pod                            func(*store.Pod)
	}{
		{"no JSON", `eth0`, v1alpha1.InterfacesInvalidReason, "annotation danm.io/interfaces: line 1, column 1: it does not start with '['; want a JSON list", nil},
		{"no network named", `[{"ip":"dynamic"}]`, v1alpha1.InterfacesInvalidReason, "exactly one of", nil},
		{"two networks named", `[{"network":"plain","vpc":"v"}]`, v1alpha1.InterfacesInvalidReason, "exactly one of", nil},
		{"a network that does not exist", `[{"network":"plain","ip":"dynamic"},{"network":"none"}]`, v1alpha1.NetworkNotFoundReason, "interface 1: DanmNet a/none does not exist", nil},
		{"one of another namespace", `[{"network":"theirs"}]`, v1alpha1.NetworkNotFoundReason, "DanmNet a/theirs", nil},
		{"one that is not Ready", `[{"network":"unready"}]`, v1alpha1.NetworkNotReadyReason, "overlaps another", nil},
		{"one that was changed since it was Ready", `[{"network":"changed"}]`, v1alpha1.NetworkNotReadyReason, "just changed", nil},
		{"one that is being deleted", `[{"network":"leaving"}]`, v1alpha1.NetworkNotReadyReason, "being deleted", nil},
		{"one that does not allow the namespace", `[{"clusterNetwork":"closed"}]`, v1alpha1.TenantNotAllowedReason, `namespace "a"`, nil},
		{"a type without a driver", `[{"network":"other"}]`, v1alpha1.DelegationNotGrantedReason, "[macvlan sriov]", nil},
		{"a VPC of another tenant", `[{"vpc":"foreign"}]`, v1alpha1.NetworkNotReadyReason, `does not allow tenant "blue"`, nil},
		{"a VPC without addresses", `[{"vpc":"v","ip":"none"}]`, v1alpha1.InterfacesInvalidReason, `instead of "none"`, nil},
		{"more interfaces than a pod may have", `[{"network":"plain"},{"network":"plain"},{"network":"plain"},{"network":"plain"},{"network":"plain"}]`, v1alpha1.InterfacesInvalidReason, "requests 5 interfaces", nil},
		{"a name that is too long", `[{"network":"plain"},{"network":"long"}]`, v1alpha1.InterfacesInvalidReason, "container_prefix", nil},
		{"no address of the first interface", `[{"network":"plain"},{"vpc":"v"}]`, v1alpha1.InterfacesInvalidReason, "DanmNet a/plain gives it none: write", nil},
		{"no address of the only interface", `[{"network":"plain","ip":"none","ip6":"none"}]`, v1alpha1.InterfacesInvalidReason, "the first interface of a pod needs an address", nil},
		{"routes without a table", `[{"network":"plain","ip":"dynamic","proutes":{"10.9.0.0/16":"10.20.0.1"}}]`, v1alpha1.InterfacesInvalidReason, "rt_tables", nil},
		{"routes without an address", `[{"network":"table","ip6":"dynamic","proutes":{"10.9.0.0/16":"10.20.0.1"}}]`, v1alpha1.InterfacesInvalidReason, "needs an address of its family", nil},
		{"a gateway outside of the network", `[{"network":"table","ip":"dynamic","proutes":{"10.9.0.0/16":"10.21.0.1"}}]`, v1alpha1.InterfacesInvalidReason, "not in 10.20.0.0/24", nil},
		{"two default routes", `[{"network":"out","ip":"dynamic"},{"network":"out2","ip":"dynamic"}]`, v1alpha1.RouteConflictReason, "eth0 (DanmNet a/out)", nil},
		{"one beside that of a VPC", `[{"vpc":"v"},{"network":"out","ip":"dynamic"}]`, v1alpha1.RouteConflictReason, "eth0 (VPC v)", nil},
		{"probes that reach nothing", `[{"network":"plain","ip":"dynamic"},{"vpc":"v"}]`, v1alpha1.ProbesOutsideVPCReason, "exec probes", probed},
		{"a port that leads nowhere", `[{"network":"plain","ip":"dynamic"}]`, v1alpha1.HostPortOutsideVPCReason, "hostPort 80", ported},
		{"no device", `[{"clusterNetwork":"fast"}]`, v1alpha1.DevicesNotRequestedReason, "ClusterNetwork fast needs 1 of the resource vendor.example/fast, for eth0, and the containers of the pod request 0", nil},
		{"fewer devices than interfaces", `[{"clusterNetwork":"fast"},{"clusterNetwork":"fast"}]`, v1alpha1.DevicesNotRequestedReason, "needs 2 of the resource vendor.example/fast, for eth0, eth1, and the containers of the pod request 1", requesting(1)},
		{"two annotations that differ", ``, v1alpha1.InterfacesInvalidReason, "differ", func(p *store.Pod) { p.InterfacesProblem = "the annotations differ" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			desired, refusal := decide(t, tc.annotation, rows, nonNil(tc.pod)...)
			if desired != nil || !strings.HasPrefix(refusal, tc.reason+": ") || !strings.Contains(refusal, tc.text) {
				t.Errorf("got %v, refused with %q; want %s with %q", short(desired), refusal, tc.reason, tc.text)
			}
		})
	}
	for name, annotation := range map[string]string{
		"a default route of a family without an address":    `[{"vpc":"v"},{"network":"out","ip6":"dynamic"}]`,
		"a default route of a family that the VPC has none": `[{"vpc":"v"},{"network":"out6","ip6":"dynamic"}]`,
		"one network twice":          `[{"network":"out","ip":"dynamic"},{"network":"out","ip":"dynamic"}]`,
		"only the first VPC has one": `[{"vpc":"v"},{"vpc":"default"}]`,
	} {
		if _, refusal := decide(t, annotation, rows); refusal != "" {
			t.Errorf("%s: refused with %q", name, refusal)
		}
	}
	if _, refusal := decide(t, `[{"vpc":"v"},{"network":"plain","ip":"dynamic"}]`, rows, probed); refusal != "" {
		t.Errorf("probes of a pod whose first interface is in a VPC: %q", refusal)
	}
}

func TestInterfaceLink_RoutesAndIPv6_AsRequested(t *testing.T) {
	net := danmNet("n", withRoute("10.30.0.0/16", "10.20.0.1"), withRoute("fd30::/64", "fd20::1"), func(n *multinet.Network) { n.Table, n.Settings.MTU = 252, 1400 })
	desired, refusal := decide(
		t,
		`[{"network":"n","ip":"dynamic","ip6":"none","proutes":{"10.9.0.0/16":"10.20.0.2"}},{"network":"n","ip":"dynamic","ip6":"dynamic","proutes6":{"fd90::/64":"fd20::2"}},{"network":"n"}]`,
		world(net),
	)
	if refusal != "" {
		t.Fatal(refusal)
	}
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	parent := netif.Config{Parent: "ens4", MTU: 1400}
	want := []netif.Config{parent, parent, parent}
	want[0].IPv6, want[1].IPv6, want[2].IPv6 = netif.IPv6None, netif.IPv6On, netif.IPv6Off
	routes := []netif.Route{{Dst: prefix("10.30.0.0/16"), Gateway: addr("10.20.0.1")}, {Dst: prefix("fd30::/64"), Gateway: addr("fd20::1")}}
	want[0].Routes = []netif.Route{
		routes[0], {Dst: prefix("10.20.0.0/24"), Table: 252}, {Dst: prefix("10.9.0.0/16"), Gateway: addr("10.20.0.2"), Table: 252},
	}
	want[0].Rules = []netif.Rule{{From: prefix("0.0.0.0/32"), Table: 252}}
	// Not 252 again, nor the tables of the kernel behind it.
	want[1].Routes = []netif.Route{ // the first interface has the route to 10.30.0.0/16
		routes[1], {Dst: prefix("fd20::/64"), Table: 256}, {Dst: prefix("fd90::/64"), Gateway: addr("fd20::2"), Table: 256},
	}
	want[1].Rules = []netif.Rule{{From: prefix("::/128"), Table: 256}}
	samePrefix := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	sameAddr := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	for i, w := range desired {
		if diff := cmp.Diff(want[i], w.Link, samePrefix, sameAddr, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("interface %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestInterfaceLink_VLAN_ParentAndNumberNamed(t *testing.T) {
	desired, refusal := decide(t, `[{"network":"tagged","ip":"dynamic"}]`, world(danmNet("tagged", func(n *multinet.Network) { n.VLAN = 300 })))
	if refusal != "" {
		t.Fatal(refusal)
	}
	if got := desired[0].Link; got.Parent != "ens4" || got.VLAN != 300 || got.VXLAN != 0 {
		t.Errorf("the link is %+v", got)
	}
}

func TestInterfaceRequest_GatewaysAndSegmentPeers_Excluded(t *testing.T) {
	net, peer := danmNet("n", withRoute("10.30.0.0/16", "10.20.0.1")), network(multinet.KindDanmNet, "b", "peer")
	apart := danmNet("apart", func(n *multinet.Network) { n.VLAN = 300 })
	desired, refusal := decide(t, `[{"network":"n","ip":"dynamic"}]`, world(net, peer, apart))
	if refusal != "" {
		t.Fatal(refusal)
	}
	got := desired[0].Range
	if diff := cmp.Diff([]string{peer.Domain()}, got.Peers); diff != "" {
		t.Errorf("peers (-want +got):\n%s", diff)
	}
	if len(got.Reserved) != 1 || got.Reserved[0] != netip.MustParseAddr("10.20.0.1") || got.Domain() != net.Domain() {
		t.Errorf("the range is %+v", got)
	}
}
