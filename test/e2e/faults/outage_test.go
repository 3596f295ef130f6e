// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/soak"
)

// health is the cluster's opinion of nodes and pods: since when each node is Ready, and the version
// of every EndpointSlice. A node or pod that was taken for unready meanwhile changes it.
type health struct {
	Nodes  map[string]time.Time
	Slices map[string]string
}

func (e *env) health(ctx context.Context) (health, error) {
	h := health{Nodes: map[string]time.Time{}, Slices: map[string]string{}}
	for _, node := range e.Lab.Nodes() {
		since, err := e.nodeReady(ctx, node.Name)
		if err != nil {
			return h, err
		}
		h.Nodes[node.Name] = since
	}
	slices, err := e.Lab.Client().DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return h, err
	}
	for _, slice := range slices.Items {
		h.Slices[slice.Namespace+"/"+slice.Name] = fmt.Sprintf("%s: %d endpoints", slice.ResourceVersion, len(slice.Endpoints))
	}
	return h, nil
}

// expectHealth requires that the cluster has the same opinion as before.
func (e *env) expectHealth(t *testing.T, before health) {
	t.Helper()
	now, err := e.health(stage.Within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, now); diff != "" {
		t.Errorf("nodes or EndpointSlices have changed (-before +after):\n%s", diff)
	}
}

// serve makes a Service of pods that are Ready, and returns the cluster's
// health once all of them are in its EndpointSlice.
func (e *env) serve(t *testing.T, tenant *scene.Tenant, pods ...*corev1.Pod) health {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: "staying"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "staying"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
	// The slices of earlier tests go with their namespaces.
	if err := e.AwaitLeft(stage.Within(t, patience)); err != nil {
		t.Fatal(err)
	}
	e.Run(t, pods...)
	e.Make(t, service)
	e.waits(t, "the pods to be endpoints", func(ctx context.Context) (bool, string, error) {
		slices, err := e.Lab.Client().DiscoveryV1().EndpointSlices(tenant.Namespace.Name).List(ctx, metav1.ListOptions{})
		ready := 0
		if err == nil {
			for _, slice := range slices.Items {
				for _, endpoint := range slice.Endpoints {
					if ptr.Deref(endpoint.Conditions.Ready, false) {
						ready++
					}
				}
			}
		}
		return ready == len(pods), fmt.Sprintf("%d are ready", ready), err
	})
	h, err := e.health(stage.Within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// stayingPods are one pod on each node with a readiness probe.
func (e *env) stayingPods(tenant *scene.Tenant) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, node := range e.Lab.Nodes() {
		pods = append(pods, tenant.Pod("staying-"+node.Name, scene.OnNode(node.Name), scene.WithLabel("app", "staying"), probed()))
	}
	return pods
}

func TestDaemonRollOut_NodesAndEndpoints_StayReady(t *testing.T) {
	e := start(t)
	e.quiet(t)
	tenant := e.Tenant(t, stage.Overlapping("rollout"))
	pods := e.stayingPods(tenant)
	before := e.serve(t, tenant, pods...)
	ctx := stage.Within(t, patience)
	if _, err := e.Lab.Kubectl(ctx, "-n", cluster.SystemNamespace, "rollout", "restart", "daemonset/alioth-cnid"); err != nil {
		t.Fatal(err)
	}
	if err := e.Lab.WaitDaemonSetReady(ctx, cluster.SystemNamespace, "alioth-cnid"); err != nil {
		t.Fatal(err)
	}
	e.expectHealth(t, before)
	e.expectUnharmed(t, pods...)
	e.expectReach(t, pods[0], pods[1])
}

const (
	// outage is how long the API server is away at least: it comes back when the pods
	// have ended without it, after their ten seconds, and the node's status and lease are
	// late.
	outage = 10 * time.Second
	// longOutage is the same in `make soak`: longer than the lease of a node, and
	// than everything that is repeated with a growing delay.
	longOutage = 2 * time.Minute
)

// leavingPods end a while after they were deleted, when the API server is away.
func (e *env) leavingPods(tenant *scene.Tenant) []*corev1.Pod {
	slow := func(pod *corev1.Pod) {
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 10}}}
	}
	var pods []*corev1.Pod
	for i := range 10 {
		node := e.Lab.Nodes()[i%2].Name
		pods = append(pods, tenant.Pod(fmt.Sprintf("leaving-%d", i), scene.OnNode(node), scene.WithNIC(fmt.Sprintf(`{"ip": "10.10.1.%d"}`, 100+i)), slow))
	}
	return pods
}

func TestAPIServerOutage_Pods_OnlyEndingsHappen(t *testing.T) {
	e := start(t)
	e.quiet(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("outage"))
	staying, leaving := e.stayingPods(tenant), e.leavingPods(tenant)
	e.Run(t, leaving...)
	before := e.serve(t, tenant, staying...)
	inside, err := e.Lab.PodNetNS(stage.Within(t, patience), staying[0].Namespace, staying[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	e.deleteSlowly(t, leaving)

	e.stopPlane(t, first)
	back := time.After(soak.Or(t, longOutage, outage))
	for _, node := range []string{first, second} {
		e.waits(t, "the leaving pods to be detached on "+node, func(ctx context.Context) (bool, string, error) {
			return e.detached(ctx, node, leaving)
		})
	}
	targets := scene.Targets(scene.Protocols(), scene.IPs(staying[1])...)
	command := append([]string{"--net=" + inside, e.Tool, "probe", "--timeout", "10s"}, targets...)
	if out, err := exec.CommandContext(stage.Within(t, patience), "nsenter", command...).CombinedOutput(); err != nil {
		t.Errorf("pods don't reach each other while the API server is away: %v\n%s", err, out)
	}
	<-back

	e.startPlane(t, first)
	for _, pod := range leaving {
		if err := e.WaitGone(stage.Within(t, patience), pod); err != nil {
			t.Fatal(err)
		}
		e.waits(t, "the addresses of "+pod.Name+" to be free", func(ctx context.Context) (bool, string, error) {
			held, err := e.Held(ctx, pod.UID)
			return err == nil && len(held) == 0, fmt.Sprint(held), err
		})
	}
	e.expectHealth(t, before)
	e.expectUnharmed(t, staying...)
	if err := e.WaitForAdmission(stage.Within(t, patience), tenant); err != nil {
		t.Fatal(err)
	}
	again := tenant.Pod(leaving[0].Name, scene.OnNode(second), scene.WithNIC(`{"ip": "10.10.1.100"}`))
	e.Run(t, again)
	e.expectReach(t, staying[0], staying[1], again)
}

// stopPlane takes the API server away, and with it the programs that would draw false conclusions
// from its absence: the controller manager takes nodes for lost that could not renew their leases,
// and the scheduler ends itself when a pod has a successor of its name on another node without its
// end having been seen.
func (e *env) stopPlane(t *testing.T, node string) {
	t.Helper()
	for _, program := range []string{"kube-controller-manager", "kube-scheduler", "kube-apiserver"} {
		if err := e.Lab.StopProcess(stage.Within(t, patience), node+"/"+program); err != nil {
			t.Fatal(err)
		}
	}
}

// startPlane undoes stopPlane, and returns when the API server serves.
func (e *env) startPlane(t *testing.T, node string) {
	t.Helper()
	for _, program := range []string{"kube-apiserver", "kube-scheduler", "kube-controller-manager"} {
		if err := e.Lab.StartProcess(stage.Within(t, patience), node+"/"+program); err != nil {
			t.Fatal(err)
		}
		if program == "kube-apiserver" {
			e.waits(t, "the nodes to renew their leases", e.leasesRenewed(time.Now()))
		}
	}
}

// deleteSlowly deletes pods and returns once their kubelets have heard of it,
// long before they have ended.
func (e *env) deleteSlowly(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if err := e.Client.Delete(stage.Within(t, patience), pod); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		e.waits(t, "the kubelet to stop "+pod.Name, func(ctx context.Context) (bool, string, error) {
			events, err := e.Events(ctx, pod)
			for _, event := range events {
				if event.Reason == "Killing" {
					return true, "", nil
				}
			}
			return false, fmt.Sprintf("%d events", len(events)), err
		})
	}
}

// detached reports whether the daemon of a node says that it has no attachment of any of the pods.
func (e *env) detached(ctx context.Context, node string, pods []*corev1.Pod) (bool, string, error) {
	dump, err := e.Dump(ctx, node)
	if err != nil {
		return false, "", err
	}
	left := 0
	for _, rec := range dump.Attachments {
		for _, pod := range pods {
			if rec.Pod.UID == string(pod.UID) {
				left++
			}
		}
	}
	return left == 0, fmt.Sprintf("%d are attached", left), nil
}

// leasesRenewed reports whether every node has renewed its lease since then.
func (e *env) leasesRenewed(since time.Time) func(context.Context) (bool, string, error) {
	return func(ctx context.Context) (bool, string, error) {
		for _, node := range e.Lab.Nodes() {
			lease, err := e.Lab.Client().CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node.Name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Before(&metav1.MicroTime{Time: since}) {
				return false, node.Name + " has not", nil
			}
		}
		return true, "", nil
	}
}
