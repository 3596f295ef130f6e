// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/probe"
	"github.com/alioth-net/alioth/test/testtool/report"
)

func TestAPIServerProxy_TenantPod_Refused(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("blue"))
	namespace := e.plainNamespace(t)
	inVPC, inDefault := tenant.Pod("server"), scene.Pod(namespace, "server")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: "server"},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: report.PortHTTP}}},
	}
	e.Make(t, service)
	e.Run(t, inVPC, inDefault)
	get := func(kind string, object metav1.Object) (string, error) {
		path := fmt.Sprintf("/api/v1/namespaces/%s/%s/%s:%d/proxy/echo", object.GetNamespace(), kind, object.GetName(), report.PortHTTP)
		body, err := e.Lab.Client().CoreV1().RESTClient().Get().AbsPath(path).DoRaw(within(t, patience))
		return string(body), err
	}
	for kind, object := range map[string]metav1.Object{"pods": inVPC, "services": service} {
		t.Run("an administrator is refused "+kind+"/proxy into a tenant's namespace", func(t *testing.T) {
			if body, err := get(kind, object); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				t.Errorf("got %q, %v; want a refusal by admission", body, err)
			}
			e.expectNeverSaw(t, inVPC, "/echo")
		})
	}
	t.Run("pods/proxy reaches a pod of the default VPC", func(t *testing.T) {
		if body, err := get("pods", inDefault); err != nil || !strings.Contains(body, scene.ServerName(namespace, "server")) {
			t.Errorf("got %q, %v", body, err)
		}
	})
}

func TestPortForward_TenantPod_Reached(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("blue"))
	pod := tenant.Pod("server")
	e.Run(t, pod)
	e.serves(t, pod)
	local := e.forward(t, pod, report.PortHTTP)
	// One attempt: the forwarder ends with the first attempt that fails.
	result := probe.AskOnce(within(t, patience), fmt.Sprintf("http://127.0.0.1:%d/echo", local))
	if want := scene.ServerName(pod.Namespace, pod.Name); !result.OK || result.Name != want {
		t.Errorf("through port-forward: %+v, want an answer of %s", result, want)
	}
}

// serves waits until a pod's server listens.
func (e *env) serves(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	results, err := e.Ask(within(t, patience), pod, answerTime, fmt.Sprintf("http://127.0.0.1:%d/echo", report.PortHTTP))
	if err != nil || !results[0].OK {
		t.Fatal("the pod's server does not answer itself: ", results, err)
	}
}

// forward forwards a free local port to a pod's port for the time of a test.
func (e *env) forward(t *testing.T, pod *corev1.Pod, port uint16) (local uint16) {
	t.Helper()
	url := e.Lab.Client().CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(e.Lab.Config())
	if err != nil {
		t.Fatal(err)
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.New(dialer, []string{fmt.Sprintf("0:%d", port)}, stop, ready, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	t.Cleanup(func() {
		close(stop)
		if err := <-ended; err != nil {
			t.Errorf("port-forward ended: %v", err)
		}
	})
	select {
	case <-ready:
	case <-within(t, patience).Done():
		t.Fatal("port-forward did not start")
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return ports[0].Local
}
