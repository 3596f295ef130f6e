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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// macvlanSpec returns a network on a device of the nodes, with both families and a table for
// the routes that pods request.
func macvlanSpec(device string) danmv1.NetworkSpec {
	return danmv1.NetworkSpec{
		NetworkID: "external", NetworkType: "macvlan",
		Options: danmv1.NetworkOptions{
			HostDevice: device, ContainerPrefix: "ext", RTTables: 200,
			CIDR: "10.100.1.0/24", AllocationPool: &danmv1.AllocationPool{Start: "10.100.1.100", End: "10.100.1.110"},
			Net6: "fd10:100:1::/64", Routes: map[string]danmv1.Gateway{"10.101.0.0/16": "10.100.1.1"},
		},
	}
}

func danmNet(namespace, name string, spec danmv1.NetworkSpec) *danmv1.DanmNet {
	return &danmv1.DanmNet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

func (e *env) makeNetwork(t *testing.T, network client.Object) {
	t.Helper()
	e.MakeNetwork(t, network)
}

func (e *env) runFor(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	e.RunFor(t, pods...)
}

func (e *env) awaitNetwork(t *testing.T, network client.Object, conditions func() []metav1.Condition) {
	t.Helper()
	e.AwaitNetwork(t, network, conditions)
}

func (e *env) onDevice(t *testing.T, pod *corev1.Pod, device string, v6 bool) netip.Addr {
	t.Helper()
	return e.OnDevice(t, pod, device, v6)
}

// Each pod has an interface in its tenant's VPC and two in a network of DANM. The pods reach each
// other in both, on one node and across nodes.
func TestPod_VPCAndDANMInterfaces_BothReach(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("danm"))
	e.wire(t, "danm0")
	first, second := e.Nodes()
	network := danmNet(tenant.Namespace.Name, "external", macvlanSpec("danm0"))
	e.makeNetwork(t, network)
	e.awaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	list := `[{"vpc":"` + tenant.VPC.Name + `"},{"network":"external","ip":"dynamic","ip6":"dynamic"},{"network":"external","ip":"10.100.1.%d","ip6":"none","proutes":{"10.102.0.0/16":"10.100.1.2"}}]`
	pods := []*corev1.Pod{
		tenant.Pod("one", scene.OnNode(first), scene.WithInterfaces(fmt.Sprintf(list, 50))),
		tenant.Pod("two", scene.OnNode(second), scene.WithInterfaces(fmt.Sprintf(list, 51))),
		tenant.Pod("three", scene.OnNode(first), scene.WithInterfaces(fmt.Sprintf(list, 52))),
	}
	e.runFor(t, pods...)
	for i, pod := range pods {
		e.checkDanmInterfaces(t, pod, netip.AddrFrom4([4]byte{10, 100, 1, byte(50 + i)}))
	}
	for _, peer := range pods[1:] {
		e.expectAnswers(t, pods[0], wantPod(peer))
		for _, v6 := range []bool{false, true} {
			e.InPod(t, pods[0], "ping", "-c", "1", "-W", "5", e.onDevice(t, peer, "ext1", v6).String())
		}
		e.InPod(t, pods[0], "ping", "-c", "1", "-W", "5", "-I", "ext2", e.onDevice(t, peer, "ext2", false).String())
	}
	e.checkUsage(t, network, len(pods))
	if err := e.Client.Delete(within(t, patience), network.DeepCopy()); err == nil || !strings.Contains(err.Error(), tenant.Namespace.Name+"/") {
		t.Errorf("deletion of a network in use: %v, want a refusal that names a pod", err)
	}
	for _, pod := range pods {
		if err := e.Delete(within(t, patience), pod); err != nil {
			t.Fatal(err)
		}
	}
	e.checkUsage(t, network, 0)
}

// checkDanmInterfaces requires the interfaces, routes and rules of a pod, and the objects
// that allow them.
func (e *env) checkDanmInterfaces(t *testing.T, pod *corev1.Pod, static netip.Addr) {
	t.Helper()
	pool := netip.MustParsePrefix("10.100.1.96/28") // the pool has the addresses 100 to 110
	dynamic := e.onDevice(t, pod, "ext1", false)
	if !pool.Contains(dynamic) || !netip.MustParsePrefix("fd10:100:1::/64").Contains(e.onDevice(t, pod, "ext1", true)) ||
		e.onDevice(t, pod, "ext2", false) != static {
		t.Errorf("ext1 of pod %s has %s and ext2 not %s", pod.Name, dynamic, static)
	}
	for command, want := range map[string]string{
		"ip -4 route show default":                "dev eth0",
		"ip -4 route show 10.101.0.0/16":          "via 10.100.1.1 dev ext",
		"ip -4 route show table 200":              "10.102.0.0/16 via 10.100.1.2 dev ext2",
		"ip -4 rule show from " + static.String(): "lookup 200",
		"ip -d link show dev ext1":                "macvlan mode bridge",
	} {
		if out := e.InNetNS(t, pod, strings.Fields(command)...); !strings.Contains(out, want) {
			t.Errorf("pod %s: %s: %q, want %q", pod.Name, command, out, want)
		}
	}
	held, err := e.Held(within(t, patience), pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(held, static) || !slices.Contains(held, dynamic) {
		t.Errorf("pod %s holds %v", pod.Name, held)
	}
	claims := new(v1alpha1.AttachmentClaimList)
	if err := e.Client.List(within(t, patience), claims, client.InNamespace(pod.Namespace)); err != nil {
		t.Fatal(err)
	}
	var interfaces []string
	for _, claim := range claims.Items {
		if claim.Spec.Pod.UID == string(pod.UID) {
			interfaces = append(interfaces, claim.Spec.Interface)
		}
	}
	slices.Sort(interfaces)
	if !slices.Equal(interfaces, []string{"ext1", "ext2"}) {
		t.Errorf("pod %s has AttachmentClaims for %v", pod.Name, interfaces)
	}
}

// checkUsage waits until the status of a network has a number of pods, with three addresses each,
// and until no others are claimed.
func (e *env) checkUsage(t *testing.T, network *danmv1.DanmNet, pods int) {
	t.Helper()
	err := scene.Until(within(t, patience), fmt.Sprintf("the network has %d pods", pods), func(ctx context.Context) (bool, string, error) {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(network), network); err != nil {
			return false, "", err
		}
		s := network.Status
		return s.Pods == int64(pods) && s.Used == int64(3*pods) && s.Total == 11 && s.Free == int64(11-pods), fmt.Sprintf("%+v", s), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A TenantNetwork gets its device from the TenantConfig, a ClusterNetwork is for the namespaces
// that it allows, and a network with the name default serves pods without a list.
func TestDANMNetworks_EachKind_PodsConnected(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant, other := e.Tenant(t, stage.Overlapping("apis")), e.Tenant(t, stage.Overlapping("apis-other"))
	e.wire(t, "danm1")
	config := &danmiov1.TenantConfig{ObjectMeta: metav1.ObjectMeta{Name: unique("devices")}, HostDevices: []danmv1.HostDevice{{Name: "danm1"}}}
	e.Make(t, config)
	spec := macvlanSpec("")
	spec.Options.Routes = nil
	internal := &danmv1.TenantNetwork{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: "default"}, Spec: spec}
	spec.Options.HostDevice, spec.Options.CIDR, spec.Options.AllocationPool, spec.Options.Net6 = "danm1", "10.103.1.0/24", nil, ""
	spec.AllowedTenants = []string{tenant.Namespace.Name}
	shared := &danmiov1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: unique("shared")}, Spec: spec}
	e.makeNetwork(t, internal)
	e.makeNetwork(t, shared)
	e.awaitNetwork(t, internal, func() []metav1.Condition { return internal.Status.Conditions })
	e.awaitNetwork(t, shared, func() []metav1.Condition { return shared.Status.Conditions })
	if p := internal.Status.Profile; p == nil || p.HostDevice != "danm1" {
		t.Errorf("the TenantNetwork has the profile %+v, want the device that is offered", p)
	}
	list := `[{"clusterNetwork":"` + shared.Name + `","ip":"dynamic"},{"tenantNetwork":"default","ip6":"dynamic"}]`
	pod, plain := tenant.Pod("pod", scene.WithInterfaces(list)), tenant.Pod("plain")
	e.runFor(t, pod, plain)
	if ip := e.onDevice(t, pod, "eth0", false); !netip.MustParsePrefix("10.103.1.0/24").Contains(ip) {
		t.Errorf("eth0 has %s of another network than the list", ip)
	}
	if ip := e.onDevice(t, plain, "eth0", false); !netip.MustParsePrefix("10.100.1.96/28").Contains(ip) {
		t.Errorf("a pod without a list has %s, want an address of the default network", ip)
	}
	refused := other.Pod("refused", scene.WithInterfaces(list))
	e.Make(t, refused)
	e.expectRefused(t, refused, v1alpha1.TenantNotAllowedReason, other.Namespace.Name)
	broken := tenant.Pod("broken", scene.WithInterfaces(`[{"network":"internal","ip":"dynamic","proute":{}}]`))
	e.Make(t, broken)
	e.expectRefused(t, broken, v1alpha1.InterfacesInvalidReason, annotations.InterfacesKey)
}
