// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// standingFor returns a definition that stands for a network of Alioth.
func standingFor(namespace, name, target string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Annotations: map[string]string{annotations.NetworkKey: target},
	}}
}

func (e *env) awaitStatus(t *testing.T, pod *corev1.Pod, interfaces int) []nadv1.NetworkStatus {
	t.Helper()
	return e.AwaitStatus(t, pod, interfaces)
}

func (e *env) ping(t *testing.T, from *corev1.Pod, to string) {
	t.Helper()
	e.InPod(t, from, "ping", "-c", "1", "-W", "5", to)
}

// A pod has its tenant's VPC, a second interface in it, and one in a network of DANM, by the
// annotation of the NPWG standard.
func TestPod_SelectsNetworkAttachmentDefinitions_AllInterfacesReach(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant, other := e.Tenant(t, stage.Overlapping("npwg")), e.Tenant(t, stage.Overlapping("npwg-other"))
	e.wire(t, "npwg0")
	first, second := e.Nodes()
	namespace := tenant.Namespace.Name
	spec := macvlanSpec("npwg0")
	// A gateway that no route of the network has is outside of the pool.
	spec.Options.CIDR, spec.Options.AllocationPool, spec.Options.Routes = "10.105.1.0/24", &danmv1.AllocationPool{Start: "10.105.1.10", End: "10.105.1.99"}, nil
	network := danmNet(namespace, "external", spec)
	network.Annotations = map[string]string{annotations.ModeKey: annotations.ModePrivate}
	e.makeNetwork(t, network)
	e.awaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	e.Make(t, standingFor(namespace, "second", `{"vpc":"`+tenant.VPC.Name+`","subnet":"net2"}`), standingFor(namespace, "external", `{"network":"external"}`))
	pods := []*corev1.Pod{
		tenant.Pod("one", scene.OnNode(first), scene.WithSelections("second,external@ext0")),
		tenant.Pod("two", scene.OnNode(second), scene.WithSelections("second,external@ext0")),
	}
	// The kubelet's probe has to come back by the VPC, and both of its interfaces there lead
	// to one VPC.
	routed := tenant.Pod(
		"routed",
		scene.OnNode(first),
		scene.WithReadiness(httpProbe("/healthz")),
		scene.WithSelections(`[{"name":"second"},{"name":"external","default-route":["10.105.1.1"]}]`),
	)
	e.runFor(t, append(slices.Clone(pods), routed)...)
	for _, pod := range pods {
		status := e.awaitStatus(t, pod, 3)
		for i, want := range []struct{ name, device string }{{"alioth", "eth0"}, {namespace + "/second", "net1"}, {namespace + "/external", "ext0"}} {
			got := status[i]
			if got.Name != want.name || got.Interface != want.device || got.Default != (i == 0) ||
				!slices.Contains(got.IPs, e.onDevice(t, pod, want.device, false).String()) {
				t.Errorf("pod %s: interface %d is %+v, want %v", pod.Name, i, got, want)
			}
		}
	}
	if link := e.InNetNS(t, pods[0], "ip", "-d", "link", "show", "dev", "ext0"); !strings.Contains(link, "macvlan mode private") {
		t.Errorf("ext0 is %s, want macvlan in the mode of the network", link)
	}
	e.expectAnswers(t, pods[0], wantPod(pods[1]))
	e.ping(t, pods[0], e.onDevice(t, pods[1], "net1", false).String())
	e.ping(t, pods[0], e.onDevice(t, pods[1], "ext0", false).String())
	e.checkMovedDefaultRoute(t, routed, pods[1])
	refused := other.Pod("refused", scene.WithSelections(namespace+"/second"))
	e.Make(t, refused)
	e.expectRefused(t, refused, v1alpha1.TenantNotAllowedReason, namespace)
	pods[0] = e.expectFreshState(t, pods[0], tenant.Pod("one", scene.OnNode(first), scene.WithSelections("second,external@ext0")))
	for _, pod := range append(pods, routed) {
		if err := e.Delete(within(t, patience), pod); err != nil {
			t.Fatal(err)
		}
	}
}

// expectFreshState replaces a pod by a pod of the same name, as a StatefulSet does, and requires
// that nothing of the first is left.
func (e *env) expectFreshState(t *testing.T, old, successor *corev1.Pod) *corev1.Pod {
	t.Helper()
	if err := e.Delete(within(t, patience), old); err != nil {
		t.Fatal(err)
	}
	e.runFor(t, successor)
	e.awaitStatus(t, successor, 3)
	err := scene.Until(within(t, patience), "the first pod to hold nothing", func(ctx context.Context) (bool, string, error) {
		held, err := e.Held(ctx, old.UID)
		list := new(v1alpha1.AttachmentClaimList)
		if err := errors.Join(err, e.Client.List(ctx, list, client.InNamespace(successor.Namespace))); err != nil {
			return false, "", err
		}
		list.Items = slices.DeleteFunc(list.Items, func(claim v1alpha1.AttachmentClaim) bool { return claim.Spec.Pod.UID != string(old.UID) })
		return len(held)+len(list.Items) == 0, fmt.Sprint(held, list.Items), nil
	})
	if err != nil {
		t.Error(err)
	}
	return successor
}

// checkMovedDefaultRoute requires that a pod with its default route elsewhere reaches its
// VPC and Services nevertheless.
func (e *env) checkMovedDefaultRoute(t *testing.T, pod, inVPC *corev1.Pod) {
	t.Helper()
	if out := e.InNetNS(t, pod, "ip", "-4", "route", "show", "default"); !strings.Contains(out, "via 10.105.1.1 dev net2") || strings.Contains(out, "eth0") {
		t.Errorf("the default routes are %q", out)
	}
	e.expectAnswers(t, pod, wantPod(inVPC))
	if out := e.InPod(t, pod, scene.Tool, "resolve", "kubernetes.default.svc.cluster.local"); !strings.Contains(out, "10.96.0.1") {
		t.Errorf("cluster DNS answers %q", out)
	}
	if status := e.awaitStatus(t, pod, 3); !slices.Equal(status[2].Gateway, []string{"10.105.1.1"}) || len(status[0].Gateway) > 0 {
		t.Errorf("the status is %+v", status)
	}
}

// installPlugins puts reference plugins into the runtime's folders of the nodes.
func (e *env) installPlugins(t *testing.T, plugins ...string) {
	t.Helper()
	first, second := e.Nodes()
	for _, node := range []string{first, second} {
		for _, plugin := range plugins {
			e.OnNode(t, node, "cp", "/usr/lib/cni/"+plugin, "/opt/cni/bin/"+plugin)
		}
	}
}

// bridged returns a definition that the reference plugins carry out.
func bridged(namespace, name string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{
			Config: `{"cniVersion":"1.0.0","type":"bridge","bridge":"npwgbr0","ipam":{"type":"host-local","subnet":"10.106.0.0/24"}}`,
		},
	}
}

// makeWire makes the macvlan network "wire", and a definition that stands for it.
func (e *env) makeWire(t *testing.T, namespace string) {
	t.Helper()
	e.wire(t, "wire0")
	spec := macvlanSpec("wire0")
	spec.Options.CIDR, spec.Options.Net6, spec.Options.AllocationPool, spec.Options.Routes = "10.107.1.0/24", "", nil, nil
	network := danmNet(namespace, "wire", spec)
	e.makeNetwork(t, network)
	e.awaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	e.Make(t, standingFor(namespace, "wire", `{"network":"wire"}`))
}

// Plugins of others run for a pod once a grant permits it, and undo their work after a restart of
// the daemon too. Pods of tenants never get them. Not parallel: it kills a daemon.
func TestOtherPlugins_GrantPermits_RunAndUndone(t *testing.T) {
	e := start(t)
	e.installPlugins(t, "bridge", "host-local")
	first, _ := e.Nodes()
	namespace, tenant := e.plainNamespace(t), e.Tenant(t, stage.Overlapping("plugins"))
	name := unique("bridged")
	e.makeWire(t, namespace)
	e.Make(t, bridged(namespace, name), bridged(tenant.Namespace.Name, name))
	pods := []*corev1.Pod{ // each in its VPC, on a bridge of another plugin, and on a macvlan network
		scene.Pod(namespace, "one", scene.OnNode(first), scene.WithSelections(name+",wire")),
		scene.Pod(namespace, "two", scene.OnNode(first), scene.WithSelections(name+",wire")),
	}
	for _, pod := range pods {
		e.Make(t, pod)
	}
	e.expectRefused(t, pods[0], v1alpha1.DelegationNotGrantedReason, name)
	grant := &v1alpha1.DelegationGrant{ObjectMeta: metav1.ObjectMeta{Name: unique("grant")}, Spec: v1alpha1.DelegationGrantSpec{
		Namespaces: []string{namespace, tenant.Namespace.Name}, Plugins: []string{"bridge"}, IPAM: []string{"host-local"},
	}}
	e.Make(t, grant)
	if err := e.WaitReady(within(t, patience), pods...); err != nil {
		t.Fatal(err)
	}
	status := e.awaitStatus(t, pods[1], 3)
	if len(status[1].IPs) != 1 || !strings.HasPrefix(status[1].IPs[0], "10.106.0.") || status[1].Name != namespace+"/"+name || status[1].Mac == "" {
		t.Errorf("the status is %+v", status)
	}
	e.ping(t, pods[0], status[1].IPs[0])
	e.ping(t, pods[0], e.onDevice(t, pods[1], "net2", false).String())
	e.expectAnswers(t, pods[0], wantPod(pods[1]))
	refused := tenant.Pod("refused", scene.WithSelections(name))
	e.Make(t, refused)
	e.expectRefused(t, refused, v1alpha1.DelegationNotGrantedReason, "pods of tenants")
	pods = append(pods, e.runInStatic(t, namespace, first), e.runByName(t, namespace, first))

	e.killDaemon(t, first)
	for _, pod := range pods {
		if err := e.Delete(within(t, patience), pod); err != nil {
			t.Fatal(err)
		}
	}
	e.expectNoRemains(t, first, name)
}

// writeConf writes a file into a node's folder of CNI configurations.
func (e *env) writeConf(t *testing.T, node, name, text string) {
	t.Helper()
	path := "/etc/cni/net.d/" + name
	e.OnNode(t, node, "sh", "-c", "echo '"+text+"' > "+path)
	t.Cleanup(func() { e.OnNode(t, node, "rm", path) })
}

// runByName runs a pod with a definition without a configuration: it is in the file of the
// node that has the definition's name, and the grant names the definition. The pod's default
// route leads there.
func (e *env) runByName(t *testing.T, namespace, node string) *corev1.Pod {
	t.Helper()
	name := unique("filed")
	e.writeConf(
		t,
		node,
		"npwgfile.conflist",
		`{"cniVersion":"1.0.0","name":"`+name+`","plugins":[{"type":"bridge","bridge":"npwgbr0","ipam":{"type":"host-local","subnet":"10.109.0.0/24"}}]}`,
	)
	t.Cleanup(func() { e.OnNode(t, node, "rm", "-r", "/var/lib/cni/networks/"+name) })
	definition := bridged(namespace, name)
	definition.Spec.Config = ""
	e.Make(t, definition)
	pod := scene.Pod(namespace, "by-name", scene.OnNode(node), scene.WithSelections(`[{"name":"`+name+`","default-route":["10.109.0.1"]}]`))
	e.Make(t, pod)
	e.expectRefused(t, pod, v1alpha1.DelegationNotGrantedReason, "does not name it in spec.networks")
	e.Make(t, &v1alpha1.DelegationGrant{ObjectMeta: metav1.ObjectMeta{Name: unique("grant")}, Spec: v1alpha1.DelegationGrantSpec{
		Networks: []string{namespace + "/" + name}, Plugins: []string{"bridge"}, IPAM: []string{"host-local"},
	}})
	if err := e.WaitReady(within(t, patience), pod); err != nil {
		t.Fatal(err)
	}
	status := e.awaitStatus(t, pod, 2)
	if len(status[1].IPs) != 1 || !strings.HasPrefix(status[1].IPs[0], "10.109.0.") || !slices.Equal(status[1].Gateway, []string{"10.109.0.1"}) {
		t.Errorf("the status is %+v", status)
	}
	if out := e.InNetNS(t, pod, "ip", "-4", "route", "show", "default"); !strings.Contains(out, "via 10.109.0.1 dev net1") || strings.Contains(out, "eth0") {
		t.Errorf("the default routes are %q", out)
	}
	return pod
}

// runInStatic runs a pod in a network of DANM with a static type, whose configuration is a
// file of the node: with an address of the operator, with one of the file's IPAM, and without.
func (e *env) runInStatic(t *testing.T, namespace, node string) *corev1.Pod {
	t.Helper()
	e.writeConf(
		t,
		node,
		"npwgstat.conf",
		`{"cniVersion":"1.0.0","name":"npwgstat","type":"bridge","bridge":"npwgbr0","ipam":{"type":"host-local","subnet":"10.108.0.0/24","rangeStart":"10.108.0.200"}}`,
	)
	t.Cleanup(func() { e.OnNode(t, node, "rm", "-r", "/var/lib/cni/networks/npwgstat") })
	network := danmNet(namespace, "static", danmv1.NetworkSpec{
		NetworkID: "npwgstat", NetworkType: "bridge", Options: danmv1.NetworkOptions{
			CIDR: "10.108.0.0/24", ContainerPrefix: "st", RTTables: 78, Routes: map[string]danmv1.Gateway{"10.108.201.0/24": "10.108.0.1"},
		},
	})
	e.makeNetwork(t, network)
	e.awaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	pod := scene.Pod(namespace, "static", scene.OnNode(node), scene.WithInterfaces(`[{"vpc":"`+defaultVPC+`"},
		{"network":"static","ip":"10.108.0.77","proutes":{"10.108.202.0/24":"10.108.0.1"}},
		{"network":"static","proutes":{"10.108.203.0/24":"10.108.0.1"}}, {"network":"static","ip":"none"}]`))
	e.runFor(t, pod)
	ip := e.onDevice(t, pod, "st1", false)
	held, err := e.Held(within(t, patience), pod.UID)
	if err != nil || ip.String() != "10.108.0.77" || !slices.Contains(held, ip) {
		t.Errorf("st1 has %s, and the pod holds %v: %v", ip, held, err)
	}
	for command, want := range map[string]string{
		"ip -4 route show 10.108.201.0/24": "via 10.108.0.1 dev st1",
		"ip -4 route show table 78":        "10.108.202.0/24 via 10.108.0.1 dev st1",
		"ip -4 rule show from 10.108.0.77": "lookup 78",
		"ip -4 -o address show dev st2":    "10.108.0.20",
		"ip -4 route show table 79":        "10.108.203.0/24 via 10.108.0.1 dev st2",
		"ip -4 rule show table 79":         "from 10.108.0.20",
		"ip -o link show dev st3":          "st3",
	} {
		if out := e.InNetNS(t, pod, strings.Fields(command)...); !strings.Contains(out, want) {
			t.Errorf("%s in the pod is %q, want %q", command, out, want)
		}
	}
	if out := e.InNetNS(t, pod, "ip", "-4", "-o", "address", "show", "dev", "st3"); out != "" {
		t.Errorf("st3, which has none, has the address %q", out)
	}
	return pod
}

// expectNoRemains waits until plugins have nothing more of a network on a node.
func (e *env) expectNoRemains(t *testing.T, node, network string) {
	t.Helper()
	err := scene.Until(within(t, patience), "the plugins have undone everything", func(context.Context) (bool, string, error) {
		ports := e.OnNode(t, node, "ip", "-o", "link", "show", "master", "npwgbr0")
		leases := e.OnNode(t, node, "sh", "-c", "ls /var/lib/cni/networks/"+network+" | grep '^10\\.' || true")
		kept := e.OnNode(t, node, "sh", "-c", "ls /var/lib/alioth/delegates")
		return ports == "" && leases == "" && kept == "", fmt.Sprintf("ports %q, leases %q, files %q", ports, leases, kept), nil
	})
	if err != nil {
		t.Error(err)
	}
	e.OnNode(t, node, "ip", "link", "del", "npwgbr0")
	e.OnNode(t, node, "rm", "-r", "/var/lib/cni/networks/"+network)
}
