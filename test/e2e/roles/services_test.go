// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// TestAServiceIsReachedWithoutTheRowsOfItsBackends: the client's node knows the backends by
// the operator's verdict, and sends to them over bouncers.
func TestAServiceIsReachedWithoutTheRowsOfItsBackends(t *testing.T) {
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
