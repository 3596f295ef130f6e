// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// onVXLAN returns a network on a VXLAN of the nodes' devices.
func onVXLAN(namespace, name, device string, vni int32) *danmv1.DanmNet {
	return danmNet(namespace, name, danmv1.NetworkSpec{
		NetworkID: name, NetworkType: "macvlan",
		Options: danmv1.NetworkOptions{HostDevice: device, VXLAN: vni, ContainerPrefix: "ext", CIDR: "10.100.3.0/24", Net6: "fd10:100:3::/64"},
	})
}

// Two networks have one range of addresses, each on a VXLAN between the nodes. The nodes have the
// links before the first pod, and lose them with the networks.
func TestVXLANNetworks_SameRange_SeparateLinks(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("hostlinks"))
	first, second := e.Nodes()
	red, blue := onVXLAN(tenant.Namespace.Name, "red", "eth0", 7100), onVXLAN(tenant.Namespace.Name, "blue", "eth0", 7101)
	nowhere := onVXLAN(tenant.Namespace.Name, "nowhere", "missing0", 7102)
	for _, network := range []*danmv1.DanmNet{red, blue} {
		e.makeNetwork(t, network)
		e.awaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	}
	e.makeNetwork(t, nowhere)
	for _, node := range []string{first, second} {
		e.awaitLinks(t, node, "vx_red", "vx_blue")
	}
	e.AwaitLinkCondition(t, red, true, "")
	e.AwaitLinkCondition(t, nowhere, false, "no device missing0")
	e.awaitReason(t, nowhere, v1alpha1.NoServingNodeReason)

	one := tenant.Pod("one", scene.OnNode(first), scene.WithInterfaces(onlyIn(tenant, "red", 1)))
	two := tenant.Pod("two", scene.OnNode(second), scene.WithInterfaces(onlyIn(tenant, "red", 2)), scene.WithLabel("app", "two"))
	other := tenant.Pod("other", scene.OnNode(second), scene.WithInterfaces(onlyIn(tenant, "blue", 3)))
	e.runFor(t, one, two, other)
	for _, v6 := range []bool{false, true} {
		e.InPod(t, one, "ping", "-c", "1", "-W", "5", e.onDevice(t, two, "ext1", v6).String())
	}
	if out, err := e.Exec(within(t, patience), one, "ping", "-c", "1", "-W", "1", e.onDevice(t, other, "ext1", false).String()); err == nil {
		t.Errorf("a pod of another network answers: %s", out)
	}
	e.expectClusterIPs(t, "red", one, two)

	for _, pod := range []*corev1.Pod{one, two, other} {
		if err := e.Delete(within(t, patience), pod); err != nil {
			t.Fatal(err)
		}
	}
	for _, network := range []client.Object{red, blue} {
		if err := e.DeleteNetwork(within(t, patience), network); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range []string{first, second} {
		e.awaitLinks(t, node)
	}
}

// A device beside the device of the nodes' network: one node reports that it has no address there,
// and the network is Ready all the same. Once it has one, pods of both nodes reach each other.
func TestVXLANNetwork_SecondDevice_ConnectsOnceAddressed(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("seconddevice"))
	nodes := e.Lab.Nodes()[:2]
	const device = cluster.VXLANDevice
	network := onVXLAN(tenant.Namespace.Name, "storage", device, 7105)
	e.makeNetwork(t, network)
	e.awaitReason(t, network, v1alpha1.NoServingNodeReason)
	for i, node := range nodes {
		e.OnNode(
			t,
			node.Name,
			"ip",
			"link",
			"add",
			device,
			"type",
			"vxlan",
			"id",
			"7199",
			"dstport",
			"4999",
			"local",
			node.IPv4.String(),
			"remote",
			nodes[1-i].IPv4.String(),
		)
		t.Cleanup(func() { e.OnNode(t, node.Name, "ip", "link", "del", device) })
		e.OnNode(t, node.Name, "ip", "link", "set", device, "up")
	}
	e.OnNode(t, nodes[0].Name, "ip", "addr", "add", "172.29.0.1/24", "dev", device)
	e.awaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	e.AwaitLinkCondition(t, network, false, v1alpha1.ParentUnaddressedReason)
	e.OnNode(t, nodes[1].Name, "ip", "addr", "add", "172.29.0.2/24", "dev", device)
	e.AwaitLinkCondition(t, network, true, "")

	one := tenant.Pod("one", scene.OnNode(nodes[0].Name), scene.WithInterfaces(onlyIn(tenant, "storage", 1)))
	two := tenant.Pod("two", scene.OnNode(nodes[1].Name), scene.WithInterfaces(onlyIn(tenant, "storage", 2)))
	e.runFor(t, one, two)
	for _, v6 := range []bool{false, true} {
		e.InPod(t, one, "ping", "-c", "1", "-W", "5", e.onDevice(t, two, "ext1", v6).String())
	}
	// No pod on the device itself, which could send into each VXLAN there.
	plain := danmNet(
		tenant.Namespace.Name,
		"plain",
		danmv1.NetworkSpec{NetworkID: "plain", NetworkType: "macvlan", Options: danmv1.NetworkOptions{HostDevice: device, CIDR: "10.101.3.0/24"}},
	)
	e.makeNetwork(t, plain)
	e.awaitNetwork(t, plain, func() []metav1.Condition { return plain.Status.Conditions })
	thief := tenant.Pod(
		"thief",
		scene.OnNode(nodes[0].Name),
		scene.WithInterfaces(fmt.Sprintf(`[{"vpc":%q},{"network":"plain","ip":"dynamic"}]`, tenant.VPC.Name)),
	)
	e.Make(t, thief)
	e.awaitEvent(t, thief, "FailedCreatePodSandBox", "reaches the node's address 172.29.0.1")
}

// awaitReason waits until a network is not Ready for a reason.
func (e *env) awaitReason(t *testing.T, network *danmv1.DanmNet, reason string) {
	t.Helper()
	err := scene.Until(within(t, patience), "the reason "+reason, func(ctx context.Context) (bool, string, error) {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(network), network); err != nil {
			return false, "", err
		}
		c := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ReadyCondition)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason, fmt.Sprintf("%+v", c), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// expectClusterIPs requires that the ClusterIPs of a Service in a network, of both families,
// lead each kind of socket of an asker to the server, over the asker's interface there.
func (e *env) expectClusterIPs(t *testing.T, network string, asker, server *corev1.Pod) {
	t.Helper()
	service := serviceOf(server.Namespace, network, "")
	service.Spec.Selector = nil
	service.Annotations = map[string]string{
		annotations.EndpointSelectorKey: fmt.Sprintf(`{"app":%q}`, server.Labels["app"]),
		annotations.NetworkKey:          "DanmNet/" + network,
	}
	e.Make(t, service)
	if len(service.Spec.ClusterIPs) != 2 {
		t.Fatalf("the Service has the ClusterIPs %v, want two", service.Spec.ClusterIPs)
	}
	own := map[bool]netip.Addr{false: e.onDevice(t, asker, "ext1", false), true: e.onDevice(t, asker, "ext1", true)}
	want := scene.ServerName(server.Namespace, server.Name)
	e.awaitSockets(t, asker, "answers of "+want+" at the ClusterIPs over VXLAN", service, func(r report.Socket) string {
		_, text, _ := strings.Cut(r.Target, "://")
		target, _ := netip.ParseAddrPort(text)
		peer, _ := netip.ParseAddrPort(r.Peer)
		if r.Error == "" && r.Name == want && peer.Addr() == own[target.Addr().Unmap().Is6()] {
			return ""
		}
		return fmt.Sprintf("%+v", r)
	})
}

// A plugin of others makes interfaces on a VXLAN of the nodes, as its definition says, once a grant
// permits this. Pods on both nodes reach each other there.
func TestVXLANDefinition_GrantedPlugin_PodsReachAcrossNodes(t *testing.T) {
	t.Parallel()
	e := start(t)
	e.installPlugins(t, "macvlan", "host-local")
	namespace := e.plainNamespace(t)
	first, second := e.Nodes()
	var pods []*corev1.Pod
	for node, ip := range map[string]string{first: "10.116.0.11", second: "10.116.0.12"} { // host-local knows one node only
		name := unique("on-" + node)
		e.Make(t, &nadv1.NetworkAttachmentDefinition{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: fmt.Sprintf(
				`{"cniVersion":"1.0.0","type":"macvlan","master":"eth0","vxlan":7103,"ipam":{"type":"host-local","subnet":"10.116.0.0/24","rangeStart":%[1]q,"rangeEnd":%[1]q}}`,
				ip,
			)},
		})
		t.Cleanup(func() { e.OnNode(t, node, "rm", "-rf", "/var/lib/cni/networks/"+name) })
		pods = append(pods, scene.Pod(namespace, "on-"+node, scene.OnNode(node), scene.WithSelections(name)))
	}
	e.Make(t, pods[0], pods[1])
	e.expectRefused(t, pods[0], v1alpha1.DelegationNotGrantedReason, "no DelegationGrant")
	e.Make(t, &v1alpha1.DelegationGrant{ObjectMeta: metav1.ObjectMeta{Name: unique("grant")}, Spec: v1alpha1.DelegationGrantSpec{
		Namespaces: []string{namespace}, Plugins: []string{"macvlan"}, IPAM: []string{"host-local"},
	}})
	if err := e.WaitReady(within(t, patience), pods...); err != nil {
		t.Fatal(err)
	}
	for i, pod := range pods {
		e.ping(t, pods[1-i], e.awaitStatus(t, pod, 2)[1].IPs[0])
	}
	if err := e.Delete(within(t, patience), pods[0], pods[1]); err != nil {
		t.Fatal(err)
	}
}

// onlyIn lists an interface in the tenant's VPC, and one in a network with an address.
func onlyIn(tenant *scene.Tenant, network string, host int) string {
	return fmt.Sprintf(`[{"vpc":%q},{"network":%q,"ip":"10.100.3.%d","ip6":"dynamic"}]`, tenant.VPC.Name, network, host)
}

// awaitLinks waits until a node has exactly these of the links of the networks of this test.
func (e *env) awaitLinks(t *testing.T, node string, want ...string) {
	t.Helper()
	slices.Sort(want)
	err := scene.Until(within(t, patience), fmt.Sprintf("node %s to have the links %v", node, want), func(context.Context) (bool, string, error) {
		var have []string
		for line := range strings.Lines(e.OnNode(t, node, "ip", "-o", "link", "show", "type", "vxlan")) {
			if fields := strings.Fields(line); len(fields) > 1 {
				if name, _, _ := strings.Cut(strings.TrimSuffix(fields[1], ":"), "@"); name == "vx_red" || name == "vx_blue" {
					have = append(have, name)
				}
			}
		}
		slices.Sort(have)
		return slices.Equal(have, want), fmt.Sprint(have), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
