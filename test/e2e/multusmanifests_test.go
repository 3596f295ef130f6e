// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// globalNamespace is the namespace in multiNetwork.globalNamespaces of the lab.
const globalNamespace = "alioth-global"

// borrowing is a namespace whose pods use the definitions of others, with the bridge of
// plugins on a node.
type borrowing struct {
	*env
	namespace, lender, node, bridge string
	grant                           *v1alpha1.DelegationGrant
}

// definition makes a definition of the plugin bridge.
func (b *borrowing) definition(t *testing.T, namespace, name, ipam string) *nadv1.NetworkAttachmentDefinition {
	t.Helper()
	def := &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{
			Config: fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"type":"bridge","bridge":%q,"ipam":%s}`, name, b.bridge, ipam),
		},
	}
	b.Make(t, def)
	return def
}

// gateways returns the devices of the default routes of a pod, of both families.
func (b *borrowing) gateways(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	var devices []string
	for _, family := range []string{"-4", "-6"} {
		for line := range strings.Lines(b.InNetNS(t, pod, "ip", "-o", family, "route", "show", "default")) {
			fields := strings.Fields(line)
			for i, field := range fields[:len(fields)-1] {
				if field == "dev" {
					devices = append(devices, family+" "+fields[i+1])
				}
			}
		}
	}
	return devices
}

// Manifests that Multus accepts: requests that a definition does not take, definitions of other
// namespaces, default routes of plugins, and a default network other than the usual one.
func TestMultusManifests_Each_Accepted(t *testing.T) {
	t.Parallel()
	e := start(t)
	e.installPlugins(t, "bridge", "host-local", "static")
	first, _ := e.Nodes()
	b := &borrowing{env: e, namespace: e.plainNamespace(t), lender: e.plainNamespace(t), node: first, bridge: "multbr0"}
	t.Cleanup(func() { e.OnNode(t, first, "sh", "-c", "ip link del "+b.bridge+" 2>/dev/null || true") })
	b.grant = &v1alpha1.DelegationGrant{ObjectMeta: metav1.ObjectMeta{Name: unique("grant")}, Spec: v1alpha1.DelegationGrantSpec{
		Namespaces: []string{b.namespace}, FromNamespaces: []string{b.lender}, Plugins: []string{"bridge"}, IPAM: []string{"host-local", "static"},
	}}
	e.Make(t, b.grant)
	t.Run("requests without the capability", b.ignoresRequests)
	t.Run("a global namespace", b.usesAGlobalNamespace)
	t.Run("the default network", b.choosesItsDefaultNetwork)
	t.Run("a namespace that lends", b.borrows) // at last: it ends the grant
}

func (b *borrowing) ignoresRequests(t *testing.T) {
	b.definition(t, b.namespace, "plain", `{"type":"static","addresses":[{"address":"10.110.0.5/24"}]}`)
	pod := scene.Pod(b.namespace, "ignores", scene.OnNode(b.node), scene.WithSelections(
		`[{"name":"plain","ips":["10.110.0.9/24"],"mac":"02:00:00:00:00:01","bandwidth":{"ingressRate":1000000},"gateway":["10.110.0.1"],"infiniband-guid":"c2:11:22:33:44:55:66:77"}]`,
	))
	b.runFor(t, pod)
	for _, text := range []string{
		`"ips" reaches the plugins as IP of CNI_ARGS alone: no plugin has the capability for it, which is "capabilities": {"ips": true}`,
		`"mac" is ignored`, `"bandwidth" is ignored`, `"infiniband-guid" is ignored`, `"gateway" is ignored`,
	} {
		b.awaitEvent(t, pod, v1alpha1.RequestIgnoredReason, text)
	}
	status := b.awaitStatus(t, pod, 2)
	if !slices.Contains(status[1].IPs, "10.110.0.9") || status[1].Mac == "02:00:00:00:00:01" || status[1].Mtu == 0 || status[0].Mtu == 0 {
		t.Errorf("the status is %+v", status)
	}
}

func (b *borrowing) usesAGlobalNamespace(t *testing.T) {
	b.makeGlobalNamespace(t)
	b.definition(t, globalNamespace, "net-g", `{"type":"host-local","subnet":"10.111.0.0/24"}`)
	t.Cleanup(func() { b.OnNode(t, b.node, "sh", "-c", "rm -rf /var/lib/cni/networks/net-g") })
	pod := scene.Pod(b.namespace, "global", scene.OnNode(b.node), scene.WithSelections(globalNamespace+"/net-g"))
	b.Make(t, pod)
	b.expectRefused(t, pod, v1alpha1.DelegationNotGrantedReason, "no DelegationGrant")
	b.Make(t, &v1alpha1.DelegationGrant{ObjectMeta: metav1.ObjectMeta{Name: unique("global")}, Spec: v1alpha1.DelegationGrantSpec{
		Networks: []string{globalNamespace + "/net-g"}, Plugins: []string{"bridge"}, IPAM: []string{"host-local"},
	}})
	if err := b.WaitReady(within(t, patience), pod); err != nil {
		t.Fatal(err)
	}
	if status := b.awaitStatus(t, pod, 2); status[1].Name != globalNamespace+"/net-g" || !strings.HasPrefix(status[1].IPs[0], "10.111.0.") {
		t.Errorf("the status is %+v", status)
	}
}

// makeGlobalNamespace waits for the end of the namespace that an earlier run has left.
func (b *borrowing) makeGlobalNamespace(t *testing.T) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: globalNamespace}}
	err := scene.Until(within(t, patience), "the global namespace to be made", func(ctx context.Context) (bool, string, error) {
		err := b.Client.Create(ctx, namespace)
		return err == nil, fmt.Sprint(err), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b.RemoveAfter(t, namespace)
}

// choosesItsDefaultNetwork has pods whose eth0 is in the network of a definition.
func (b *borrowing) choosesItsDefaultNetwork(t *testing.T) {
	b.wire(t, "mult0")
	spec := macvlanSpec("mult0")
	spec.Options.CIDR, spec.Options.Net6, spec.Options.AllocationPool, spec.Options.Routes = "10.112.1.0/24", "", nil, map[string]danmv1.Gateway{
		"0.0.0.0/0": "10.112.1.1",
	}
	network := danmNet(b.namespace, "mult", spec)
	b.makeNetwork(t, network)
	b.awaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	b.Make(t, standingFor(b.namespace, "mult", `{"network":"mult"}`), standingFor(b.namespace, "home", `{"vpc":"`+defaultVPC+`"}`))
	outside := scene.Pod(b.namespace, "outside", scene.OnNode(b.node), scene.WithDefaultNetwork("mult"), scene.WithSelections("home"))
	inVPC := scene.Pod(b.namespace, "inside", scene.OnNode(b.node), scene.WithDefaultNetwork(`[{"name":"home"}]`), scene.WithSelections("mult"))
	refused := scene.Pod(b.namespace, "nowhere", scene.OnNode(b.node), scene.WithDefaultNetwork("kube-system/mult"))
	b.Make(t, refused)
	b.runFor(t, outside, inVPC)
	status := b.awaitStatus(t, outside, 2)
	if status[0].Name != b.namespace+"/mult" || !status[0].Default || !strings.HasPrefix(status[0].IPs[0], "10.112.1.") ||
		!slices.Equal(status[0].Gateway, []string{"10.112.1.1"}) ||
		status[0].Mtu == 0 {
		t.Errorf("the status is %+v", status)
	}
	if got := b.gateways(t, outside); !slices.Equal(got, []string{"-4 eth0"}) {
		t.Errorf("the default routes are by %v", got)
	}
	// The other way round the pod keeps the way out of its VPC.
	if status := b.awaitStatus(t, inVPC, 2); status[0].Name != b.namespace+"/home" || !status[0].Default || len(status[1].Gateway) > 0 ||
		len(status[0].Gateway) == 0 {
		t.Errorf("the status is %+v", status)
	}
	b.awaitEvent(t, inVPC, v1alpha1.DefaultRouteKeptReason, "the route to 0.0.0.0/0 by 10.112.1.1 of DanmNet "+b.namespace+"/mult is left out")
	b.expectRefused(t, refused, v1alpha1.TenantNotAllowedReason, "annotation v1.multus-cni.io/default-network: ")
}

// borrows has pods with a definition of another namespace, whose IPAM has default routes.
func (b *borrowing) borrows(t *testing.T) {
	name := unique("lent")
	def := b.definition(
		t,
		b.lender,
		name,
		`{"type":"host-local","ranges":[[{"subnet":"10.113.0.0/24"}],[{"subnet":"fd10:113::/64"}]],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"},{"dst":"10.114.0.0/16"}]}`,
	)
	selecting := func(pod, more string) *corev1.Pod {
		return scene.Pod(b.namespace, pod, scene.OnNode(b.node), scene.WithSelections(fmt.Sprintf(`[{"name":%q,"namespace":%q%s}]`, name, b.lender, more)))
	}
	keeps, moves := selecting("keeps", ""), selecting("moves", `,"default-route":[]`)
	b.runFor(t, keeps, moves)
	if got := b.gateways(t, keeps); slices.ContainsFunc(got, func(one string) bool { return !strings.HasSuffix(one, " eth0") }) || len(got) != 2 {
		t.Errorf("the pod keeps its default routes, and has them by %v", got)
	}
	if got := b.gateways(t, moves); !slices.Equal(got, []string{"-4 net1", "-6 net1"}) {
		t.Errorf("the pod moves its default routes, and has them by %v", got)
	}
	for _, dst := range []string{"0.0.0.0/0 by 10.113.0.1", "::/0 by fd10:113::1"} {
		b.awaitEvent(t, keeps, v1alpha1.DefaultRouteKeptReason, "the route to "+dst)
	}
	status := b.awaitStatus(t, keeps, 2)
	if status[1].Name != b.lender+"/"+name || len(status[1].Gateway) > 0 || len(status[0].Gateway) != 2 || status[1].Mtu == 0 {
		t.Errorf("the status is %+v", status)
	}
	moved := b.awaitStatus(t, moves, 2)
	if len(moved[1].Gateway) != 2 || len(moved[0].Gateway) > 0 {
		t.Errorf("the status is %+v", moved)
	}
	b.ping(t, keeps, moved[1].IPs[0])

	// The owner of the other namespace changes the definition, and the grant ends. Both
	// concern new pods.
	changed := def.DeepCopy()
	changed.Spec.Config = `{"cniVersion":"1.0.0","type":"macvlan","master":"eth0"}`
	if err := b.Client.Patch(within(t, patience), changed, client.MergeFrom(def)); err != nil {
		t.Fatal(err)
	}
	late := selecting("late", "")
	b.Make(t, late)
	b.expectRefused(t, late, v1alpha1.DelegationNotGrantedReason, `"macvlan" is not granted`)
	if err := b.Delete(within(t, patience), b.grant); err != nil {
		t.Fatal(err)
	}
	b.expectRefused(t, late, v1alpha1.TenantNotAllowedReason, "spec.fromNamespaces: ["+b.lender+"]")
	b.ping(t, moves, status[1].IPs[0])
	for _, pod := range []*corev1.Pod{keeps, moves, late} {
		if err := b.Delete(within(t, patience), pod); err != nil {
			t.Fatal(err)
		}
	}
	b.expectNoLeases(t, name)
}

// expectNoLeases waits until the IPAM plugin has no address of a network.
func (b *borrowing) expectNoLeases(t *testing.T, network string) {
	t.Helper()
	dir := "/var/lib/cni/networks/" + network
	err := scene.Until(within(t, patience), "the plugins have undone everything", func(context.Context) (bool, string, error) {
		leases := b.OnNode(t, b.node, "sh", "-c", "ls "+dir+" | grep -E '^(10\\.|fd10)' || true")
		return leases == "", leases, nil
	})
	if err != nil {
		t.Error(err)
	}
	b.OnNode(t, b.node, "rm", "-r", dir)
}
