// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// leadTo makes a Service without a selector, whose one backend is an address in a
// handwritten slice.
func (e *env) leadTo(t *testing.T, namespace string, backend netip.Addr) *corev1.Service {
	t.Helper()
	service := unsharedService(namespace)
	service.Name, service.Spec.Selector = "db", nil
	service.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: "db-1", Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{backend.String()}}},
	}
	for _, port := range service.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: ptr.To(port.Name), Protocol: ptr.To(port.Protocol), Port: ptr.To(port.Port)})
	}
	e.Make(t, service, slice)
	return service
}

// awaitLeftOut waits until a Service has an event about a left-out endpoint at an address.
func (e *env) awaitLeftOut(t *testing.T, service *corev1.Service, address netip.Addr) {
	t.Helper()
	err := scene.Until(within(t, patience), "the event "+v1alpha1.EndpointsLeftOutReason, func(ctx context.Context) (bool, string, error) {
		var list corev1.EventList
		err := e.Client.List(ctx, &list, client.InNamespace(service.Namespace))
		for _, event := range list.Items {
			if event.InvolvedObject.Name == service.Name && event.Reason == v1alpha1.EndpointsLeftOutReason && strings.Contains(event.Message, address.String()) {
				return true, "", err
			}
		}
		return false, fmt.Sprintf("%d events", len(list.Items)), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestService_BackendOutside_FollowsVPCEgress has two tenants with the same ranges and the same
// Service, whose backend is a host outside of the cluster.
func TestService_BackendOutside_FollowsVPCEgress(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	address := e.serveOn(t, e.outsideHost(t, "db", 211), "db", 211)
	open, closed := e.withEgress(t, "leads"), e.Tenant(t, stage.Overlapping("led"))
	service, refused := e.leadTo(t, open.Namespace.Name, address), e.leadTo(t, closed.Namespace.Name, address)
	near, far := open.Pod("near", scene.OnNode(first), scene.WithNIC(`{"ip": "10.10.1.40"}`)), open.Pod("far", scene.OnNode(second))
	other := closed.Pod("near", scene.OnNode(first), scene.WithNIC(`{"ip": "10.10.1.40"}`))
	e.Run(t, near, far, other)
	targets, tcp := vipTargets(service), scene.Target("tcp", netip.MustParseAddr(service.Spec.ClusterIP))
	for _, from := range []*corev1.Pod{near, far} {
		e.awaitReach(t, from, true, tcp)
		e.expectOutside(t, from, "db", targets...)
	}
	t.Run("not where there is no egress", func(t *testing.T) {
		e.awaitLeftOut(t, refused, address)
		e.expectRefusals(t, other, netip.MustParseAddr(refused.Spec.ClusterIP))
	})
	t.Run("not to where it is denied, until it is no longer", func(t *testing.T) {
		e.deny(t, open, address.String()+"/32")
		e.awaitLeftOut(t, service, address)
		e.awaitReach(t, near, false, tcp)
		e.expectRefusals(t, near, netip.MustParseAddr(service.Spec.ClusterIP))
		e.deny(t, open)
		e.awaitReach(t, near, true, tcp)
		e.expectOutside(t, near, "db", targets...)
	})
}

// deny gives a tenant's VPC another list of ranges that its egress does not lead to.
func (e *env) deny(t *testing.T, tenant *scene.Tenant, ranges ...string) {
	t.Helper()
	vpc := &v1alpha1.VPC{}
	if err := e.Client.Get(within(t, patience), client.ObjectKeyFromObject(tenant.VPC), vpc); err != nil {
		t.Fatal(err)
	}
	before := vpc.DeepCopy()
	vpc.Spec.EgressDeny = ranges
	if err := e.Client.Patch(within(t, patience), vpc, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// expectOutside requires that all targets are answered. Targets that send their name must send the
// wanted one.
func (e *env) expectOutside(t *testing.T, from *corev1.Pod, name string, targets ...string) {
	t.Helper()
	results, err := e.Ask(within(t, patience), from, answerTime, targets...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.OK || r.Name != name && !strings.HasPrefix(r.Target, "icmp") {
			t.Errorf("%s from %s: answered %v by %q, want %q: %s", r.Target, from.Name, r.OK, r.Name, name, r.Error)
		}
	}
}

// TestDefaultVPC_HostPods_BackendsAndClients has a pod on each node's own network behind a Service,
// which pods and the nodes themselves ask.
func TestDefaultVPC_HostPods_BackendsAndClients(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	namespace := e.plainNamespace(t)
	nobody, service := serviceOf(namespace, "nobody", "nobody"), serviceOf(namespace, "agents", "agent")
	e.Make(t, nobody, service)
	onHost := func(pod *corev1.Pod) { pod.Spec.HostNetwork = true }
	agents := []*corev1.Pod{
		scene.Pod(namespace, "one", scene.OnNode(first), scene.WithLabel("app", "agent"), onHost),
		scene.Pod(namespace, "two", scene.OnNode(second), scene.WithLabel("app", "agent"), scene.WithLabel("agent", "two"), onHost),
	}
	askers := []*corev1.Pod{scene.Pod(namespace, "near", scene.OnNode(first)), scene.Pod(namespace, "far", scene.OnNode(second))}
	e.Run(t, append(agents, askers...)...)
	targets := vipTargets(service)
	for _, from := range askers {
		e.awaitReach(t, from, true, scene.Target("tcp", netip.MustParseAddr(service.Spec.ClusterIP)))
		seen := map[string]bool{}
		err := scene.Until(within(t, patience), "both agents to answer "+from.Name, func(ctx context.Context) (bool, string, error) {
			results, err := e.Ask(ctx, from, answerTime, targets...)
			for _, r := range results {
				if !r.OK {
					return false, "", fmt.Errorf("%s: %s", r.Target, r.Error)
				}
				seen[r.Name] = true
			}
			return seen[scene.ServerName(namespace, "one")] && seen[scene.ServerName(namespace, "two")], fmt.Sprint(seen), err
		})
		if err != nil {
			t.Error(err)
		}
	}
	for _, node := range e.Lab.Nodes() {
		e.nodeReaches(t, node.Name, scene.Targets([]string{"tcp", "udp", "http"}, netip.MustParseAddr(service.Spec.ClusterIP))...)
	}
	for _, agent := range agents {
		for _, ip := range nobody.Spec.ClusterIPs {
			e.expectRefusals(t, agent, netip.MustParseAddr(ip))
		}
	}
	t.Run("by node ports", func(t *testing.T) { e.expectNodePortsOfHosts(t, agents, askers) })
}
