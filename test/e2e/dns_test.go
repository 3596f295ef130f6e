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

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// Two tenants with one and the same range and Services of the same name: DNS is the cluster's, so
// each name has to lead into its own tenant's VPC.
func TestDNS_TwoTenantsSameNames_OwnVPCAnswered(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	tenants := []*scene.Tenant{e.Tenant(t, stage.Overlapping("red")), e.Tenant(t, stage.Overlapping("blue"))}
	servers := map[*scene.Tenant]*corev1.Pod{}
	for _, tenant := range tenants {
		e.Make(t, headless(tenant.Namespace.Name))
		server := tenant.Pod("server", scene.OnNode(first), scene.WithLabel("app", "db"), scene.WithNIC(`{"subnet": "net1", "ip": "10.10.1.77"}`))
		asker := tenant.Pod("asker", scene.OnNode(second))
		e.Run(t, server, asker)
		servers[tenant] = server
		t.Run(tenant.Name, func(t *testing.T) { e.expectNames(t, asker, server) })
	}
	stranger := tenants[1].Pod("stranger", scene.OnNode(first))
	e.Run(t, stranger)
	// The name is known to everybody; the address is one of the asker's own VPC.
	other := servers[tenants[0]]
	e.awaitAddresses(t, stranger, "db."+other.Namespace+".svc.cluster.local", addressesOf(other)...)
	results, err := e.Ask(within(t, patience), stranger, answerTime, scene.Target("tcp", netip.MustParseAddr("10.10.1.77")))
	if err != nil {
		t.Fatal(err)
	}
	own := servers[tenants[1]]
	if want := scene.ServerName(own.Namespace, own.Name); !results[0].OK || results[0].Name != want {
		t.Errorf("%s answers as %q (%s), want the asker's own tenant's %s", results[0].Target, results[0].Name, results[0].Error, want)
	}
}

// headless returns a Service whose name stands for the addresses of its pods.
func headless(namespace string) *corev1.Service {
	both := corev1.IPFamilyPolicyRequireDualStack
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "db"}, IPFamilyPolicy: &both,
			Ports: []corev1.ServicePort{{Name: "echo", Port: 7}},
		},
	}
}

// expectNames asks for everything that has a name, and for names that must not exist.
func (e *env) expectNames(t *testing.T, asker, server *corev1.Pod) {
	t.Helper()
	e.awaitAddresses(t, asker, "db."+server.Namespace+".svc.cluster.local", addressesOf(server)...)
	for _, target := range scene.Targets(scene.Protocols(), scene.IPs(server)...) {
		e.awaitReach(t, asker, true, target)
	}
	if got := e.InPod(t, asker, scene.Tool, "resolve", "10.96.0.1"); !strings.Contains(got, "kubernetes.default.svc.cluster.local.") {
		t.Errorf("the ClusterIP of the API has the name %q", got)
	}
	for _, question := range append(addressesOf(server), "10-10-1-77."+server.Namespace+".pod.cluster.local") {
		out, err := e.Exec(within(t, patience), asker, scene.Tool, "resolve", question)
		if err == nil || !strings.Contains(err.Error(), "no such host") {
			t.Errorf("%s resolves to %q, %v; want no such host", question, out, err)
		}
	}
}

// awaitAddresses waits until a name has exactly these addresses, sorted.
func (e *env) awaitAddresses(t *testing.T, asker *corev1.Pod, name string, want ...string) {
	t.Helper()
	err := scene.Until(within(t, patience), fmt.Sprint(name, " to have the addresses ", want), func(ctx context.Context) (bool, string, error) {
		out, err := e.Exec(ctx, asker, scene.Tool, "resolve", name)
		got := strings.Fields(out)
		slices.Sort(got)
		return err == nil && slices.Equal(got, want), fmt.Sprint(got, err), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// addressesOf a pod, sorted as text.
func addressesOf(pod *corev1.Pod) []string {
	var addresses []string
	for _, ip := range scene.IPs(pod) {
		addresses = append(addresses, ip.String())
	}
	slices.Sort(addresses)
	return addresses
}
