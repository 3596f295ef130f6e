// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// recordOf returns the record of a pod that the daemon of its node keeps.
func (e *env) recordOf(t *testing.T, pod *corev1.Pod) nodestatus.Attachment {
	t.Helper()
	records := e.recordsOf(t, pod)
	if len(records) == 0 {
		t.Fatalf("%s has no attachment of %s", pod.Spec.NodeName, pod.Name)
	}
	return records[0]
}

// recordsOf returns all attachments of a pod that the daemon of its node keeps.
func (e *env) recordsOf(t *testing.T, pod *corev1.Pod) []nodestatus.Attachment {
	t.Helper()
	dump, err := e.Dump(stage.Within(t, stage.Patience), pod.Spec.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(dump.Attachments, func(rec nodestatus.Attachment) bool { return rec.Pod.UID != string(pod.UID) })
}

// TestNodeProgram_TenantPod_Unreachable has a program on a node connect to the address that the
// kubelet uses there, and to the pod's shadow in every way.
func TestNodeProgram_TenantPod_Unreachable(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, _ := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("bait"))
	get := &corev1.HTTPGetAction{Path: "/bait", Port: intstr.FromInt32(report.PortHTTP)}
	pod := tenant.Pod("bait", scene.OnNode(first), scene.WithReadiness(corev1.ProbeHandler{HTTPGet: get}))
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: get}}
	e.Run(t, pod) // so the kubelet gets there

	record := e.recordOf(t, pod)
	shadows := []netip.Addr{record.Shadow4, record.Shadow6}
	targets := append(scene.Targets([]string{"tcp", "http", "udp"}, scene.IPs(pod)...), scene.Targets(scene.Protocols(), shadows...)...)
	results, err := scene.ParseLines[report.Probe](e.OnNode(t, first, append([]string{"testtool", "probe", "--timeout", "1s"}, targets...)...))
	if err != nil || len(results) != len(targets) {
		t.Fatalf("%d answers to %d questions: %v", len(results), len(targets), err)
	}
	for _, result := range results {
		if result.OK {
			t.Errorf("a program of the node reaches %s, and %s answers", result.Target, result.Name)
		}
	}
}

// mimicPort is where the pod that has a node's IP listens, and a program of that node.
const mimicPort = 18102

// TestKubeletProbe_PodWithNodeAddress_AsksPod gives a pod the IP of another node. It has the
// kubelet probe the pod and call its hook at a port where that node listens.
func TestKubeletProbe_PodWithNodeAddress_AsksPod(t *testing.T) {
	t.Parallel()
	e := start(t)
	server, twin := e.Lab.Nodes()[0], e.Lab.Nodes()[1]
	tenant := e.Tenant(t, e.OnNodeRange("mimic", server.IPv4.String(), server.IPv6.String()))
	listener := e.onNodesNetwork(t, twin.Name, "--http", fmt.Sprint(mimicPort))
	e.awaitServer(t, server.Name, netip.AddrPortFrom(twin.IPv4, mimicPort))
	get := func(path string) *corev1.HTTPGetAction {
		return &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(mimicPort)}
	}
	pod := tenant.Pod("mimic", scene.OnNode(server.Name), scene.WithNIC(fmt.Sprintf(`{"ip": "%s,%s"}`, twin.IPv4, twin.IPv6)),
		scene.WithReadiness(corev1.ProbeHandler{HTTPGet: get("/probe")}))
	main := &pod.Spec.Containers[0]
	main.Command = append(main.Command, "--http", fmt.Sprint(mimicPort))
	// A container of its own: it starts when the server does not begin to listen any more.
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name: "hooked", Image: scene.Image, ImagePullPolicy: corev1.PullNever, Command: []string{scene.Tool, "pause"},
		Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: get("/hook")}},
	})
	e.Run(t, pod)
	for _, want := range []struct {
		pod   *corev1.Pod
		paths []string
	}{{pod, []string{"/hook", "/probe"}}, {listener, []string{"/control"}}} {
		if got := e.askedFor(t, want.pod); !slices.Equal(got, want.paths) {
			t.Errorf("%s was asked for %v, want %v", want.pod.Name, got, want.paths)
		}
	}
}

// awaitServer has a program of a node ask for /control until the server answers: a
// container runs before its server listens.
func (e *env) awaitServer(t *testing.T, node string, server netip.AddrPort) {
	t.Helper()
	err := scene.Until(stage.Within(t, stage.Patience), "an answer of "+server.String(), func(ctx context.Context) (bool, string, error) {
		out, err := e.Lab.NodeExec(ctx, node, e.Tool, "get", fmt.Sprintf("http://%s/control", server))
		return err == nil, fmt.Sprintf("%v: %s", err, out), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// askedFor returns the paths that clients have requested from a pod's server at mimicPort,
// sorted.
func (e *env) askedFor(t *testing.T, pod *corev1.Pod) (paths []string) {
	t.Helper()
	ctx := stage.Within(t, stage.Patience)
	out, err := e.Lab.ExecInPod(ctx, pod.Namespace, pod.Name, pod.Spec.Containers[0].Name, scene.Tool, "seen", "--port", fmt.Sprint(mimicPort))
	if err != nil {
		t.Fatal(err)
	}
	seen, err := scene.ParseLines[report.Seen](out)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range seen {
		paths = append(paths, message.Text)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
