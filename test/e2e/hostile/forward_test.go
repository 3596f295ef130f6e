// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

const (
	// forwardedHTTP is the port of a server of the tenant's own.
	forwardedHTTP = 18104
	// findPods prints the cgroup of pods of a node of the lab, which is below the node's own.
	findPods = `for root in /sys/fs/cgroup/unified /sys/fs/cgroup; do
if [ -e $root/%[1]s/kubepods/cgroup.events ]; then echo $root/%[1]s/kubepods; exit; fi; done; exit 1`
)

// TestPortForward_HostNetworkPod_DaemonPortsClosed forwards ports of pods as kubectl port-forward
// does: the runtime connects, a process of the node. A tenant's pod on the network of its node
// leads to the loopback ports of the daemon. The test is not parallel, because it replaces the
// daemon of a node.
func TestPortForward_HostNetworkPod_DaemonPortsClosed(t *testing.T) {
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("forwarder"))
	access := scene.HostAccess(tenant.Name, []string{tenant.Name}, fmt.Sprint(forwardedHTTP))
	access.Spec.HostNetwork = true
	e.Grant(t, access, tenant.Namespace.Name, onHostNetwork)
	_, node := e.Nodes()
	e.serveByTCP(t, node)
	e.PersonWith(t, tenant.Namespace.Name, "edit")
	f := &forwarding{env: e, Tenant: tenant}
	f.host, f.usual = tenant.Pod("host", scene.OnNode(node), onHostNetwork), tenant.Pod("usual", scene.OnNode(node))
	container := &f.host.Spec.Containers[0]
	container.Command = append(container.Command, "--echo=0", "--stream=0", "--sink=0", "--round-trip=0", "--grpc=0", fmt.Sprintf("--http=%d", forwardedHTTP))
	e.Run(t, f.host, f.usual)
	f.token = strings.TrimSpace(e.OnNode(t, node, "cat", wire.TokenFile))
	t.Run("a port of its own", f.reachesItsOwn)
	t.Run("the node IPAM API", f.asksForNoAddress)
	t.Run("metrics", f.readsNoMetrics)
	t.Run("a pod of a VPC", f.leadsIntoItsOwnNamespace)
}

// forwarding is a tenant's user who forwards ports of the tenant's pods.
type forwarding struct {
	*env
	*scene.Tenant
	// host is on the network of its node, usual in the tenant's VPC.
	host, usual *corev1.Pod
	// token is the right one, which the tenant does not know.
	token string
}

// serveByTCP has the daemon of one node serve the node IPAM API by TCP too, until the end of
// the test.
func (e *env) serveByTCP(t *testing.T, node string) {
	t.Helper()
	pods := strings.TrimSpace(e.OnNode(t, node, "sh", "-c", fmt.Sprintf(findPods, node)))
	sets := e.Lab.Dynamic().Resource(appsv1.SchemeGroupVersion.WithResource("daemonsets")).Namespace(cluster.SystemNamespace)
	before, err := sets.Get(stage.Within(t, stage.Patience), e.daemonSet(t, node), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The daemons of other nodes stay.
	still, strategy := before.DeepCopy(), []string{"spec", "updateStrategy"}
	if err := unstructured.SetNestedMap(still.Object, map[string]any{"type": string(appsv1.OnDeleteDaemonSetStrategyType)}, strategy...); err != nil {
		t.Fatal(err)
	}
	changed := still.DeepCopy()
	addArguments(t, changed, fmt.Sprintf("--node-ipam-listen=localhost:%d", ipamPort), "--node-ipam-pod-cgroup="+pods)
	t.Cleanup(func() {
		applyAsHelm(t, sets, still)
		e.replaceDaemon(t, node)
		applyAsHelm(t, sets, before)
	})
	applyAsHelm(t, sets, changed)
	e.replaceDaemon(t, node)
}

// addArguments adds arguments to the first container of a DaemonSet.
func addArguments(t *testing.T, set *unstructured.Unstructured, arguments ...string) {
	t.Helper()
	path := []string{"spec", "template", "spec", "containers"}
	containers, found, err := unstructured.NestedSlice(set.Object, path...)
	if err != nil || !found {
		t.Fatalf("the containers of %s: %v", set.GetName(), err)
	}
	container := containers[0].(map[string]any)
	list, _ := container["args"].([]any)
	for _, argument := range arguments {
		list = append(list, argument)
	}
	container["args"] = list
	if err := unstructured.SetNestedSlice(set.Object, containers, path...); err != nil {
		t.Fatal(err)
	}
}

// daemonSet returns the name of the DaemonSet that runs the daemon of a node.
func (e *env) daemonSet(t *testing.T, node string) string {
	t.Helper()
	daemon, err := e.Lab.DaemonPod(stage.Within(t, stage.Patience), node)
	if err != nil {
		t.Fatal(err)
	}
	return metav1.GetControllerOf(daemon).Name
}

// replaceDaemon deletes the daemon of a node, and waits until its successor is ready.
func (e *env) replaceDaemon(t *testing.T, node string) {
	t.Helper()
	ctx := stage.Within(t, 2*stage.Patience)
	old, err := e.Lab.DaemonPod(ctx, node)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Delete(ctx, old); err != nil {
		t.Fatal(err)
	}
	err = scene.Until(ctx, "another daemon of node "+node, func(ctx context.Context) (bool, string, error) {
		now, err := e.Lab.DaemonPod(ctx, node)
		return err == nil && now.UID != old.UID && isReady(now), fmt.Sprint(err), nil // it may be between two
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isReady reports the condition of a pod.
func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// forward has the tenant's user forward a port of a pod, and returns where it is answered.
func (f *forwarding) forward(t *testing.T, pod *corev1.Pod, port int) (at string) {
	t.Helper()
	config := f.Lab.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: stage.NameWith(f.Namespace.Name, "edit"), Groups: []string{"system:authenticated"}}
	url := f.Lab.Client().CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(url, config)
	if err != nil {
		t.Fatal(err)
	}
	ready, stop, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("forward port %d of pod %s: %v", port, pod.Name, err)
	}
	t.Cleanup(func() {
		close(stop)
		if err := <-ended; err != nil {
			t.Logf("forwarding of port %d of pod %s has ended: %v", port, pod.Name, err)
		}
	})
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local)
}

// ask sends a request by a connection of its own, and returns the status and the body.
func ask(t *testing.T, method, url, authorization string, body any) (status int, text string, err error) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(stage.Within(t, stage.Patience), method, url, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	// The daemon's certificate is its own; the answer is of interest, not the name.
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	return answer.StatusCode, string(read), err
}

// reachesItsOwn shows that ports are forwarded.
func (f *forwarding) reachesItsOwn(t *testing.T) {
	status, text, err := ask(t, http.MethodGet, "http://"+f.forward(t, f.host, forwardedHTTP)+"/hostname", "", nil)
	if err != nil || status != http.StatusOK {
		t.Errorf("the pod's own server answers %d, %.200q, %v", status, text, err)
	}
}

// asksForNoAddress tries every operation with tokens that are not the right one. With the
// right one the daemon answers, so the port is open, and the token alone keeps it closed.
func (f *forwarding) asksForNoAddress(t *testing.T) {
	at := "http://" + f.forward(t, f.host, ipamPort)
	err := scene.Until(stage.Within(t, stage.Patience), "the API to be served by TCP", func(context.Context) (bool, string, error) {
		status, text, err := ask(t, http.MethodPost, at+wire.ReleaseIPConfigsPath, wire.TokenScheme+" "+f.token, map[string]string{"infraContainerID": "none"})
		return status == http.StatusOK, fmt.Sprintf("%d, %.200q, %v", status, text, err), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	near := f.token[:len(f.token)-1] + "x"
	for _, operation := range wire.Operations() {
		for _, proof := range []string{"", wire.TokenScheme, wire.TokenScheme + " ", wire.TokenScheme + " " + near, "Basic " + f.token, f.token} {
			path := strings.ReplaceAll(operation.Path, wire.ContainerIDVariable, "none")
			status, text, err := ask(t, operation.Method, at+path, proof, operation.Request)
			if err != nil || status != http.StatusUnauthorized {
				t.Errorf("%s %s with %d characters of authorization: %d, %.200q, %v, want 401", operation.Method, path, len(proof), status, text, err)
			}
		}
	}
}

// readsNoMetrics tries without a token, and with one of the tenant's.
func (f *forwarding) readsNoMetrics(t *testing.T) {
	at := "https://" + f.forward(t, f.host, metricsPort) + "/metrics"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace.Name, Name: "default"}}
	request := &authenticationv1.TokenRequest{}
	if err := f.Client.SubResource("token").Create(stage.Within(t, stage.Patience), account, request); err != nil {
		t.Fatal(err)
	}
	for proof, want := range map[string]int{"": http.StatusUnauthorized, "Bearer none": http.StatusUnauthorized, "Bearer " + request.Status.Token: http.StatusForbidden} {
		status, text, err := ask(t, http.MethodGet, at, proof, nil)
		if err != nil || status != want || strings.Contains(text, "alioth_") {
			t.Errorf("metrics with %d characters of authorization: %d, %.200q, %v, want %d", len(proof), status, text, err, want)
		}
	}
}

// leadsIntoItsOwnNamespace requires that ports of a pod in a VPC are the ports of its own
// namespace, where the daemon has none.
func (f *forwarding) leadsIntoItsOwnNamespace(t *testing.T) {
	for port, scheme := range map[int]string{ipamPort: "http", metricsPort: "https"} {
		at := f.forward(t, f.usual, port) // for one request: the runtime ends one that fails
		if status, text, err := ask(t, http.MethodGet, scheme+"://"+at+wire.HealthPath, wire.TokenScheme+" "+f.token, nil); err == nil {
			t.Errorf("port %d of a pod in a VPC answers %d, %.200q", port, status, text)
		}
	}
}
