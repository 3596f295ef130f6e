// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/waits"
)

// askTime is how long it is asked who has an address: everybody who answers is heard.
const askTime = time.Second

// externalPool gives addresses to tenants for the time of a test.
func (e *env) externalPool(t *testing.T, use v1alpha1.ExternalPoolUse, cidrs []string, tenants ...string) *v1alpha1.ExternalPool {
	t.Helper()
	pool := &v1alpha1.ExternalPool{
		ObjectMeta: metav1.ObjectMeta{Name: unique("pool")},
		Spec:       v1alpha1.ExternalPoolSpec{CIDRs: cidrs, AllowedTenants: tenants, Use: use},
	}
	e.Make(t, pool)
	return pool
}

// publishOutside makes a Service in front of a pod that gets addresses on the nodes'
// network, and returns them too.
func (e *env) publishOutside(t *testing.T, pod *corev1.Pod, name string, change func(*corev1.ServiceSpec)) (published, []netip.Addr) {
	t.Helper()
	service := serviceOf(pod.Namespace, name, "web")
	service.Annotations = map[string]string{v1alpha1.LoadBalancerAnnotation: v1alpha1.LoadBalancerExternal}
	service.Spec.Type, service.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To(v1alpha1.LoadBalancerClass)
	change(&service.Spec)
	e.Make(t, service)
	e.awaitIngress(t, service, 2)
	var ips []netip.Addr
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		ips = append(ips, netip.MustParseAddr(ingress.IP))
	}
	return published{service, pod}, ips
}

// whoHas asks from a host who has addresses, and returns the MACs that answer.
func (e *env) whoHas(t *testing.T, host *cluster.Host, ips ...netip.Addr) map[netip.Addr][]string {
	t.Helper()
	command := []string{"who-has", "--timeout", askTime.String()}
	for _, ip := range ips {
		command = append(command, ip.String())
	}
	results, err := scene.ParseLines[report.Neighbour](e.onHost(t, host, command...))
	if err != nil {
		t.Fatal(err)
	}
	at := map[netip.Addr][]string{}
	for _, result := range results {
		at[netip.MustParseAddr(result.IP)] = result.At
	}
	return at
}

// nodeMACs returns the nodes by their MACs on their network.
func (e *env) nodeMACs(t *testing.T, host *cluster.Host) map[string]string {
	t.Helper()
	names := map[string]string{}
	for _, node := range e.Lab.Nodes() {
		at := e.whoHas(t, host, node.IPv4, node.IPv6)
		if len(at[node.IPv4]) != 1 || !slices.Equal(at[node.IPv4], at[node.IPv6]) {
			t.Fatalf("%s is at %v", node.Name, at)
		}
		names[at[node.IPv4][0]] = node.Name
	}
	return names
}

// electedNode returns the node that an ExternalAddress names.
func (e *env) electedNode(ctx context.Context, ip netip.Addr) (string, error) {
	address := &v1alpha1.ExternalAddress{}
	err := e.Client.Get(ctx, types.NamespacedName{Name: v1alpha1.ExternalAddressName(ip)}, address)
	return address.Status.Node, err
}

// awaitAnnounced waits until exactly one node answers for each address: the node that the address
// names, and that may be it.
func (e *env) awaitAnnounced(t *testing.T, host *cluster.Host, macs map[string]string, ips []netip.Addr, nodes ...string) {
	t.Helper()
	err := scene.Until(within(t, patience), "one node to answer for each address", func(ctx context.Context) (bool, string, error) {
		at := e.whoHas(t, host, ips...)
		for _, ip := range ips {
			elected, err := e.electedNode(ctx, ip)
			if err != nil || !slices.Contains(nodes, elected) || len(at[ip]) != 1 || macs[at[ip][0]] != elected {
				return false, fmt.Sprintf("%s names %q and is at %v, nodes are at %v", ip, elected, at[ip], macs), err
			}
		}
		return true, "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitNobody waits until no node answers for addresses.
func (e *env) awaitNobody(t *testing.T, host *cluster.Host, ips ...netip.Addr) {
	t.Helper()
	err := scene.Until(within(t, patience), "nobody to answer for the addresses", func(context.Context) (bool, string, error) {
		at := e.whoHas(t, host, ips...)
		some := slices.ContainsFunc(ips, func(ip netip.Addr) bool { return len(at[ip]) > 0 })
		return !some, fmt.Sprint(at), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// knownAt returns where the host's own kernel believes an address to be.
func (e *env) knownAt(t *testing.T, host *cluster.Host, ip netip.Addr) string {
	t.Helper()
	out, err := host.Exec(within(t, patience), "ip", "-j", "neigh", "show", ip.String(), "dev", "eth0")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		LLAddr string `json:"lladdr"`
	}
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 {
		t.Fatalf("where %s is: %q, %v", ip, out, err)
	}
	return rows[0].LLAddr
}

// excludeNode keeps a node from announcing addresses for the time of a test.
func (e *env) excludeNode(t *testing.T, name string) {
	t.Helper()
	label := func(ctx context.Context, value any) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{corev1.LabelNodeExcludeBalancers: value}}})
		if err != nil {
			return err
		}
		return e.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, patch))
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(patience))
		defer cancel()
		if err := label(ctx, nil); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	if err := label(within(t, patience), ""); err != nil {
		t.Fatal(err)
	}
}

// expectRefusal waits until all targets are refused to a host. The kernel of a node limits its ICMP
// errors for a host to one a second after a few (icmp_ratelimit), and earlier knocks count.
func (e *env) expectRefusal(t *testing.T, host *cluster.Host, targets ...string) {
	t.Helper()
	err := scene.Until(within(t, patience), "ports to be refused", func(context.Context) (bool, string, error) {
		var silent []string
		for _, r := range e.knock(t, host, targets...) {
			if r.OK {
				return false, "", fmt.Errorf("%+v, want a refusal", r)
			}
			if !strings.Contains(r.Error, "refused") {
				silent = append(silent, r.Target)
			}
		}
		targets = silent
		return len(silent) == 0, strings.Join(silent, ", "), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// expectNothing requires that targets neither answer nor refuse a host.
func (e *env) expectNothing(t *testing.T, host *cluster.Host, targets ...string) {
	t.Helper()
	if wrong := answered(e.knock(t, host, targets...)); len(wrong) > 0 {
		t.Errorf("answered and must not:\n%s", inOrder(wrong))
	}
}

// edge is two tenants with the same addresses, and the Services that they show to the network of
// the nodes.
type edge struct {
	// client and stranger are machines of that network.
	client, stranger *cluster.Host
	macs             map[string]string
	// everywhere has its backend on the first node, local, the other tenant's, on the
	// second, and guarded lets in the client's IPv4 address alone.
	everywhere, local, guarded          published
	everywhereIPs, localIPs, guardedIPs []netip.Addr
}

func (e *env) edge(t *testing.T) *edge {
	t.Helper()
	first, second := e.Nodes()
	one, other := e.Tenant(t, stage.Overlapping("edge-a")), e.Tenant(t, stage.Overlapping("edge-b"))
	from4, from6 := e.onUnderlay(160)
	to4, to6 := e.onUnderlay(165)
	e.externalPool(t, v1alpha1.PoolForLoadBalancers, []string{fmt.Sprintf("%s-%s", from4, to4), fmt.Sprintf("%s-%s", from6, to6)}, one.Name, other.Name)
	server := func(tenant *scene.Tenant, node string) *corev1.Pod {
		return tenant.Pod("server", scene.OnNode(node), scene.WithLabel("app", "web"), scene.WithNIC(`{"ip": "10.10.1.30"}`))
	}
	near, far := server(one, first), server(other, second)
	e.Run(t, near, far)
	v4, v6 := e.onUnderlay(219)
	s := &edge{client: e.outsideHostAt(t, "customer", v4, v6), stranger: e.outsideHost(t, "stranger", 210)}
	s.macs = e.nodeMACs(t, s.client)
	s.everywhere, s.everywhereIPs = e.publishOutside(t, near, "web", func(*corev1.ServiceSpec) {})
	s.local, s.localIPs = e.publishOutside(t, far, "web", func(spec *corev1.ServiceSpec) {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	s.guarded, s.guardedIPs = e.publishOutside(t, near, "guarded", func(spec *corev1.ServiceSpec) {
		spec.LoadBalancerSourceRanges = []string{netip.PrefixFrom(v4, 32).String()}
	})
	return s
}

// edgeTargets returns all ports of a Service at addresses.
func edgeTargets(ips ...netip.Addr) []string {
	return scene.Targets([]string{"tcp", "udp", "http"}, ips...)
}

func TestExternalAddress_ClientOnNodeNetwork_ReachesVPC(t *testing.T) {
	t.Parallel()
	e := start(t)
	s := e.edge(t)
	first, second := e.Nodes()
	t.Run("one node answers for each, and its tenant's pod is reached", func(t *testing.T) {
		e.awaitAnnounced(t, s.client, s.macs, slices.Concat(s.everywhereIPs, s.guardedIPs), first, second)
		e.awaitAnnounced(t, s.client, s.macs, s.localIPs, second)
		e.expectFromOutside(t, s.client, s.everywhere, edgeTargets(s.everywhereIPs...)...)
		e.expectFromOutside(t, s.client, s.local, edgeTargets(s.localIPs...)...)
	})
	t.Run("other ports are refused", func(t *testing.T) {
		var targets []string
		for _, ip := range slices.Concat(s.everywhereIPs, s.localIPs) {
			targets = append(targets, scene.TargetPort("connect", ip, report.PortStream), scene.TargetPort("udp", ip, report.PortSink))
		}
		e.expectRefusal(t, s.client, targets...)
	})
	t.Run("source ranges", func(t *testing.T) {
		v4, v6 := s.guardedIPs[0], s.guardedIPs[1]
		e.expectFromOutside(t, s.client, s.guarded, edgeTargets(v4)...)
		e.expectNothing(t, s.client, edgeTargets(v6)...)
		e.expectNothing(t, s.stranger, edgeTargets(v4)...)
		e.expectFromOutside(t, s.stranger, s.everywhere, edgeTargets(s.everywhereIPs[0])...)
	})
	t.Run("who has learned where an address is hears that it moves", func(t *testing.T) { e.expectMove(t, s) })
	t.Run("not after the Service is gone", func(t *testing.T) {
		if err := e.Delete(within(t, patience), s.local.service); err != nil {
			t.Fatal(err)
		}
		e.awaitNobody(t, s.client, s.localIPs...)
		e.expectFromOutside(t, s.client, s.everywhere, edgeTargets(s.everywhereIPs...)...)
	})
}

// expectMove takes an address's node away, and requires that the client's own kernel has
// the MAC of the next one before it has a reason to ask.
func (e *env) expectMove(t *testing.T, s *edge) {
	t.Helper()
	ips := s.everywhereIPs
	for _, ip := range ips {
		elected, err := e.electedNode(within(t, patience), ip)
		if err != nil || s.macs[e.knownAt(t, s.client, ip)] != elected {
			t.Fatalf("%s is known to be at %s, and names %s: %v", ip, e.knownAt(t, s.client, ip), elected, err)
		}
	}
	leaves, err := e.electedNode(within(t, patience), ips[0])
	if err != nil {
		t.Fatal(err)
	}
	e.excludeNode(t, leaves)
	err = scene.Until(within(t, patience), "the client to know the next node", func(context.Context) (bool, string, error) {
		at := []string{s.macs[e.knownAt(t, s.client, ips[0])], s.macs[e.knownAt(t, s.client, ips[1])]}
		return !slices.Contains(at, leaves) && !slices.Contains(at, ""), fmt.Sprint(at), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	e.expectFromOutside(t, s.client, s.everywhere, edgeTargets(ips...)...)
	nodes := slices.DeleteFunc(e.Lab.Topology().NodeNames(), func(name string) bool { return name == leaves })
	e.awaitAnnounced(t, s.client, s.macs, ips, nodes...)
}
