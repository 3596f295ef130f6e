// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// handlers returns the four kinds of probe. Each fails when the test sets the pod's server to fail,
// except TCP, which has no answer to look at.
func handlers(mark string) map[string]corev1.ProbeHandler {
	return map[string]corev1.ProbeHandler{
		"http": httpProbe("/healthz"),
		"grpc": {GRPC: &corev1.GRPCAction{Port: report.PortGRPC, Service: ptr.To(mark)}},
		"exec": {Exec: &corev1.ExecAction{Command: []string{scene.Tool, "dial", "http", fmt.Sprintf("127.0.0.1:%d/healthz", report.PortHTTP), "--timeout", "500ms"}}},
		"tcp":  {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(report.PortEcho)}},
	}
}

func httpProbe(path string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(report.PortHTTP)}}
}

func TestProbes_TenantsSameRange_FollowOwnServer(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	var all []*corev1.Pod
	for _, name := range []string{"blue", "red"} {
		tenant := e.Tenant(t, stage.Overlapping(name))
		for kind, handler := range handlers(name) {
			nodes := []string{first, second}
			if handler.Exec != nil {
				nodes = nodes[:1] // the probe does not use the network
			}
			for _, node := range nodes {
				pod := tenant.Pod(kind+"-"+node, scene.OnNode(node), scene.WithReadiness(handler), scene.WithLiveness(handler))
				// Long after readiness, or a restart could heal it before it is seen.
				liveness := pod.Spec.Containers[0].LivenessProbe
				liveness.FailureThreshold = max(15/liveness.PeriodSeconds, 6)
				all = append(all, pod)
			}
		}
	}
	e.Run(t, all...)

	for _, pod := range all {
		if strings.HasPrefix(pod.Name, "tcp") {
			continue // no answer to turn; that the probe connects was shown by the pod becoming Ready
		}
		t.Run(pod.Name+" of "+pod.Namespace+" leaves and joins readiness as its server says", func(t *testing.T) {
			t.Parallel()
			e.turnHealth(t, pod, false)
			e.waitReadiness(t, pod, corev1.ConditionFalse)
			e.turnHealthAfterRestart(t, pod)
		})
	}
}

func (e *env) turnHealth(t *testing.T, pod *corev1.Pod, ok bool) {
	t.Helper()
	if err := e.SetHealth(within(t, patience), pod, ok); err != nil {
		t.Fatal(err)
	}
}

func (e *env) waitReadiness(t *testing.T, pod *corev1.Pod, want corev1.ConditionStatus) {
	t.Helper()
	err := scene.Until(within(t, patience), fmt.Sprintf("readiness %s of %s", want, pod.Name), func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		condition := scene.PodCondition(pod, corev1.PodReady)
		return err == nil && condition != nil && condition.Status == want, fmt.Sprintf("%+v", condition), err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, e.Describe(context.Background(), pod))
	}
}

// turnHealthAfterRestart waits until the failing liveness probe made the
// kubelet restart the container, whose new server is healthy again.
func (e *env) turnHealthAfterRestart(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	err := scene.Until(within(t, patience), "a restart by the liveness probe", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		restarts := 0
		for _, container := range pod.Status.ContainerStatuses {
			restarts += int(container.RestartCount)
		}
		return err == nil && restarts > 0, fmt.Sprintf("%d restarts", restarts), err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, e.Describe(context.Background(), pod))
	}
	e.waitReadiness(t, pod, corev1.ConditionTrue)
}

func TestVPC_RangeOfNodes_PodsProbedAndConnected(t *testing.T) {
	t.Parallel()
	e := start(t)
	// The node must reach the API server, so that no probe goes to a pod under
	// that address: it has its own test.
	server := e.Lab.Nodes()[0]
	tenant := e.Tenant(t, e.OnNodeRange("nodelike", server.IPv4.String(), server.IPv6.String()))
	var pods []*corev1.Pod
	for i, node := range e.Lab.Nodes() {
		// Each pod has the address of the node that it does not run on.
		twin := e.Lab.Nodes()[(i+1)%len(e.Lab.Nodes())]
		if i == 0 {
			pods = append(pods, tenant.Pod("twin", scene.OnNode(node.Name), scene.WithReadiness(httpProbe("/healthz")),
				scene.WithNIC(fmt.Sprintf(`{"ip": "%s,%s"}`, twin.IPv4, twin.IPv6))))
		}
		for kind, handler := range handlers("nodelike") {
			if handler.Exec != nil {
				continue // the probe does not use the network
			}
			pods = append(pods, tenant.Pod(kind+"-"+node.Name, scene.OnNode(node.Name), scene.WithReadiness(handler)))
		}
	}
	// The operator may come to the pods in any order. So another pod may get the address that the
	// first one asks for.
	e.Run(t, pods[0])
	e.Run(t, pods[1:]...)
	for _, from := range pods[:2] {
		e.expectAnswers(t, from, wantOthers(from, pods))
	}
}

func TestPod_AddressOfAPIServer_NodeStaysReady(t *testing.T) {
	t.Parallel()
	e := start(t)
	_, second := e.Nodes()
	tenant := e.Tenant(t, e.OnNodeRange("apilike"))
	server := e.Lab.Nodes()[0]
	pod := tenant.Pod("twin-of-the-api-server", scene.OnNode(second),
		scene.WithReadiness(handlers("")["exec"]), scene.WithLiveness(httpProbe("/healthz")),
		scene.WithNIC(fmt.Sprintf(`{"ip": "%s,%s"}`, server.IPv4, server.IPv6)))
	// No program may listen on the node at the probe's port, so that a liveness probe which went to
	// the node shows as restarts and nothing else.
	pod.Spec.Containers[0].LivenessProbe.FailureThreshold = 1000
	peer := tenant.Pod("peer", scene.OnNode(second))
	e.Run(t, pod) // before the peer, which may be given any free address
	e.Run(t, peer)
	before := e.renewal(t, second)
	err := scene.Until(within(t, patience), "the kubelet to renew its lease twice", func(ctx context.Context) (bool, string, error) {
		now := e.renewal(t, second)
		return now.Sub(before.Time) > 15e9, fmt.Sprintf("renewed %s, at first %s", now, before), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{}
	if err := e.Client.Get(within(t, patience), types.NamespacedName{Name: second}, node); err != nil {
		t.Fatal(err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			t.Errorf("node %s is not Ready: %s %s", second, condition.Reason, condition.Message)
		}
	}
	e.expectAnswers(t, peer, wantPod(pod))
}

// renewal is when a node's kubelet last reached the API server.
func (e *env) renewal(t *testing.T, node string) metav1.MicroTime {
	t.Helper()
	lease := &coordinationv1.Lease{}
	key := types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node}
	if err := e.Client.Get(within(t, patience), key, lease); err != nil {
		t.Fatal(err)
	}
	return *lease.Spec.RenewTime
}

func TestStaticAddress_TwoTenantsOneNode_Separate(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	blue, red := e.Tenant(t, stage.Overlapping("blue")), e.Tenant(t, stage.Overlapping("red"))
	static := func(tenant *scene.Tenant, name string, options ...scene.PodOption) *corev1.Pod {
		return tenant.Pod(name, append(options, scene.OnNode(first), scene.WithNIC(`{"ip": "10.10.1.40,fd10:10:0:1::40"}`))...)
	}
	probed := static(blue, "twin", scene.WithReadiness(httpProbe("/probe/blue")))
	quiet := static(red, "twin")
	bluePeer, redPeer := blue.Pod("peer", scene.OnNode(second)), red.Pod("peer", scene.OnNode(second))
	e.Run(t, probed, quiet, bluePeer, redPeer)

	t.Run("traffic reaches the own tenant's pod", func(t *testing.T) {
		e.expectAnswers(t, bluePeer, wantPod(probed))
		e.expectAnswers(t, redPeer, wantPod(quiet))
		e.expectAnswers(t, probed, wantPod(bluePeer))
		e.expectAnswers(t, quiet, wantPod(redPeer))
	})
	t.Run("the probe reaches the pod that it belongs to and no other", func(t *testing.T) {
		if !e.saw(t, probed, "/probe/blue") {
			t.Error("the probed pod never got its probe")
		}
		e.expectNeverSaw(t, quiet, "/probe")
	})
	t.Run("a second pod with network probes waits, says why, and starts once the first is gone", func(t *testing.T) {
		if err := e.Delete(within(t, patience), quiet); err != nil {
			t.Fatal(err)
		}
		second := static(red, "twin-with-probes", scene.WithReadiness(httpProbe("/probe/red")))
		if err := e.Create(within(t, patience), second); err != nil {
			t.Fatal(err)
		}
		e.expectProbeConflict(t, second, probed)
		e.expectNeverSaw(t, probed, "/probe/red")
		// Not by force: the pod stays in the API until the kubelet is done with it.
		if err := e.Client.Delete(within(t, patience), probed, client.GracePeriodSeconds(1)); err != nil {
			t.Fatal(err)
		}
		e.becomesReady(t, second)
		e.expectNeverSaw(t, second, "/probe/blue")
	})
}

// expectProbeConflict waits for the event with the reason why a pod does not start, which
// must name the pod in its way.
func (e *env) expectProbeConflict(t *testing.T, pod, other *corev1.Pod) {
	t.Helper()
	err := scene.Until(within(t, patience), "the event ProbeConflict", func(ctx context.Context) (bool, string, error) {
		events, err := e.Events(ctx, pod)
		var seen []string
		for _, event := range events {
			if event.Reason == "ProbeConflict" && strings.Contains(event.Message, other.Namespace+"/"+other.Name) {
				return true, "", nil
			}
			seen = append(seen, event.Reason+": "+event.Message)
		}
		return false, strings.Join(seen, "; "), err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, e.Describe(context.Background(), pod))
	}
	if err := e.Client.Get(within(t, patience), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	if ip := scene.IP(pod, false); ip != (netip.Addr{}) {
		t.Errorf("the waiting pod runs with %s:\n%s", ip, e.Describe(context.Background(), pod))
	}
}
