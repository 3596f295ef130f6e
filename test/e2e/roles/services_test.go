// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// TestService_BackendRowsMissing_ReachedOverBouncers: the client's node knows the backends by the
// operator's verdict, and sends to them over bouncers.
func TestService_BackendRowsMissing_ReachedOverBouncers(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, tenant("served", 2, 0))
	client, backend := tenant.Pod("client", scene.OnNode(e.plain[0])), tenant.Pod("backend", scene.OnNode(e.plain[1]), scene.WithLabel("app", "backend"))
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "backend"}, Ports: []corev1.ServicePort{{Port: report.PortEcho}}},
	}
	e.Make(t, service)
	e.Run(t, client, backend)
	e.served(t, tenant, e.eligible, nil)
	for _, node := range e.plain {
		e.relies(t, node, tenant)
	}
	at := netip.MustParseAddr(service.Spec.ClusterIP)
	e.ExpectAnswers(t, client, map[string]string{scene.TargetPort("tcp", at, report.PortEcho): scene.ServerName(backend.Namespace, backend.Name)})

	// A backend that takes the place of the first is found, too.
	if err := e.Delete(stage.Within(t, stage.Patience), backend); err != nil {
		t.Fatal(err)
	}
	backend = tenant.Pod("next", scene.OnNode(e.eligible[0]), scene.WithLabel("app", "backend"))
	e.Run(t, backend)
	e.ExpectAnswers(t, client, map[string]string{scene.TargetPort("tcp", at, report.PortEcho): scene.ServerName(backend.Namespace, backend.Name)})
}

// TestService_SeveralBackends_Spread has clients on a bouncer's node and on another, and Services
// with one backend to five, in both subnets and on all nodes.
func TestService_SeveralBackends_Spread(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, tenant("spread", 2, 0))
	clients := []*corev1.Pod{tenant.Pod("plain", scene.OnNode(e.plain[0])), tenant.Pod("beside", scene.OnNode(e.eligible[0]))}
	const most = 5
	var backends []*corev1.Pod
	var services []*corev1.Service
	nodes := slices.Concat(e.plain, e.eligible)
	for n := range most {
		options := []scene.PodOption{scene.OnNode(nodes[(n+1)%len(nodes)]), scene.WithNIC(fmt.Sprintf(`{"subnet": "net%d"}`, 1+n%2))}
		for larger := n; larger < most; larger++ {
			options = append(options, scene.WithLabel(fmt.Sprintf("among-%d", larger+1), "yes"))
		}
		backends = append(backends, tenant.Pod(fmt.Sprintf("backend-%d", n), options...))
		services = append(services, serviceOf(tenant, fmt.Sprintf("of-%d", n+1), map[string]string{fmt.Sprintf("among-%d", n+1): "yes"}))
		e.Make(t, services[n])
	}
	e.Run(t, slices.Concat(clients, backends)...)
	e.served(t, tenant, e.eligible, nil)
	e.relies(t, e.plain[0], tenant)
	for _, client := range clients {
		for n, service := range services {
			e.expectOneOf(t, client, service, backends[:n+1])
		}
		e.expectOneBackend(t, client, services[most-1], func() { e.expectSpread(t, client, services[most-1]) })
	}
}

// serviceOf selects pods of a tenant by labels, for all protocols.
func serviceOf(tenant *scene.Tenant, name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: name},
		Spec: corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{
			{Name: "tcp", Port: report.PortEcho}, {Name: "udp", Port: report.PortEcho, Protocol: corev1.ProtocolUDP}, {Name: "http", Port: report.PortHTTP},
		}},
	}
}

// expectOneOf requires that each protocol of a Service is answered by one of its backends.
func (e *env) expectOneOf(t *testing.T, from *corev1.Pod, service *corev1.Service, backends []*corev1.Pod) {
	t.Helper()
	var names []string
	for _, backend := range backends {
		names = append(names, scene.ServerName(backend.Namespace, backend.Name))
	}
	targets := scene.Targets([]string{"tcp", "udp", "http"}, netip.MustParseAddr(service.Spec.ClusterIP))
	results, err := e.Ask(stage.Within(t, stage.Patience), from, stage.AnswerTime, targets...)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if !result.OK || !slices.Contains(names, result.Name) {
			t.Errorf("from %s, %s of Service %s is answered by %q (%s), want one of %v", from.Name, result.Target, service.Name, result.Name, result.Error, names)
		}
	}
}

// expectSpread requires that all of 50 connections are answered, by more than one backend.
func (e *env) expectSpread(t *testing.T, from *corev1.Pod, service *corev1.Service) {
	t.Helper()
	const connections = 50
	results, err := e.AskTimes(
		stage.Within(t, stage.Patience),
		from,
		connections,
		stage.AnswerTime,
		"",
		scene.Target("tcp", netip.MustParseAddr(service.Spec.ClusterIP)),
	)
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]int{}
	for _, result := range results {
		servers[result.Name+result.Error]++
		if !result.OK {
			t.Errorf("from %s: %+v", from.Name, result)
		}
	}
	if len(servers) < 2 || len(results) != connections {
		t.Errorf("from %s, %d connections are answered by %v, want several backends", from.Name, len(results), servers)
	}
}

// expectOneBackend requires that a long connection stays with its backend while others begin.
func (e *env) expectOneBackend(t *testing.T, from *corev1.Pod, service *corev1.Service, others func()) {
	t.Helper()
	var all []report.Conversation
	long := e.begin(t, from, &all, "converse", "--interval", "1ms", scene.Target("tcp", netip.MustParseAddr(service.Spec.ClusterIP)))
	others()
	e.ends(t, long)
	if len(all) != 1 || len(all[0].Turns) != 1 || all[0].Broken != 0 || all[0].Answered != all[0].Sent || all[0].Answered < 3 {
		t.Errorf("from %s: %+v, want one backend and all answers", from.Name, all)
	}
}
