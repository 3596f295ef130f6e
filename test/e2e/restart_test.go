// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// matrix has the parts that must not notice that daemons go and come back: two tenants with the
// same ranges, one of them with a Service.
type matrix struct {
	*env
	blue, red *scene.Tenant
	// client asks; near is on its node and far on the other, from where clients of the
	// Service ask too.
	client, near, far *corev1.Pod
	// other and otherFar are of the other tenant.
	other, otherFar *corev1.Pod
	deployment      *appsv1.Deployment
	// target is the Service's address and port.
	target string
}

func (e *env) matrix(t *testing.T) *matrix {
	t.Helper()
	first, second := e.Nodes()
	m := &matrix{env: e, blue: e.Tenant(t, stage.Overlapping("blue")), red: e.Tenant(t, stage.Overlapping("red"))}
	m.client, m.near, m.far = m.blue.Pod("client", scene.OnNode(first)), m.blue.Pod("near", scene.OnNode(first)), m.blue.Pod("far", scene.OnNode(second))
	m.other, m.otherFar = m.red.Pod("client", scene.OnNode(second)), m.red.Pod("far", scene.OnNode(first))
	service := serviceOf(m.blue.Namespace.Name, "web", "web")
	m.deployment = deploymentOf(m.blue, "web")
	e.Make(t, service, m.deployment)
	e.Run(t, m.client, m.near, m.far, m.other, m.otherFar)
	e.awaitRollout(t, m.deployment)
	m.target = net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(report.PortEcho))
	return m
}

// TestDaemonRestart_ConnectionsAndPods_Unnoticed is a matrix. Its rows are ways to replace daemons,
// or the pods of a Service. Its columns are activities meanwhile: connections, the deletion and the
// creation of pods, and connections to the Service.
func TestDaemonRestart_ConnectionsAndPods_Unnoticed(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	m := e.matrix(t)
	for _, row := range []struct {
		name string
		// replace calls meanwhile when the first of the replaced pods is away.
		replace func(t *testing.T, meanwhile func())
		// servers is how many pods of the Service must have answered.
		servers int
	}{
		{"daemons are killed on both nodes, one after the other", func(t *testing.T, meanwhile func()) {
			back := e.beginKill(t, first)
			meanwhile()
			back()
			e.killDaemon(t, second)
		}, 2},
		{"daemons are rolled out anew", func(t *testing.T, meanwhile func()) {
			back := e.beginRollOut(t)
			meanwhile()
			back()
		}, 2},
		// Pods that go first, or come last, may have had no chance to be asked.
		{"the Service's Deployment is updated", func(t *testing.T, meanwhile func()) {
			m.beginUpdate(t)
			meanwhile()
			e.awaitRollout(t, m.deployment)
		}, 2 * rolloutBackends * 3 / 4},
	} {
		t.Run(row.name, func(t *testing.T) { m.expectUnnoticed(t, row.replace, row.servers) })
	}
}

// expectUnnoticed is one row of the matrix.
func (m *matrix) expectUnnoticed(t *testing.T, replace func(t *testing.T, meanwhile func()), servers int) {
	ctx := within(t, 6*patience)
	first, second := m.Nodes()
	leaving := m.blue.Pod(unique("leaving"), scene.OnNode(first))
	var coming []*corev1.Pod
	for _, node := range []string{first, second} {
		coming = append(coming, m.blue.Pod(unique("coming"), scene.OnNode(node), scene.WithReadiness(httpProbe("/healthz"))))
	}
	m.Run(t, leaving)
	flows := []*stage.Traffic{
		m.StartTraffic(ctx, t, "same node, IPv4", m.client, scene.IP(m.near, false)),
		m.StartTraffic(ctx, t, "other node, IPv6", m.client, scene.IP(m.far, true)),
		m.StartTraffic(ctx, t, "other tenant, other node, IPv4", m.other, scene.IP(m.otherFar, false)),
	}
	load := m.startConnecting(t, m.target, m.near, m.far)
	replace(t, func() {
		if err := m.Client.Delete(ctx, leaving.DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		for _, pod := range coming {
			if err := m.Create(ctx, pod); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("connections are kept", func(t *testing.T) {
		for _, flow := range flows {
			m.ExpectUnharmed(t, flow)
		}
	})
	t.Run("no connection to the Service is lost", func(t *testing.T) {
		if served := m.expectNoLoss(t, load); len(served) < servers {
			t.Errorf("%d servers have answered, want %d", len(served), servers)
		}
	})
	t.Run("a pod deleted meanwhile gives its addresses back", func(t *testing.T) { m.expectFreed(t, leaving) })
	t.Run("pods created meanwhile work", func(t *testing.T) {
		if err := m.WaitReady(within(t, patience), coming...); err != nil {
			t.Fatal(err)
		}
		m.expectAnswers(t, m.client, wantPod(coming[0]))
		m.expectAnswers(t, m.client, wantPod(coming[1]))
	})
}

// expectFreed requires that a deleted pod goes, and its addresses with it.
func (m *matrix) expectFreed(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := m.WaitGone(within(t, patience), pod); err != nil {
		t.Error(err)
	}
	err := scene.Until(within(t, patience), "its addresses to be free", func(ctx context.Context) (bool, string, error) {
		held, err := m.Held(ctx, pod.UID)
		return len(held) == 0, fmt.Sprintf("held: %v", held), err
	})
	if err != nil {
		t.Error(err)
	}
}

// killDaemon kills a node's daemon and waits until its container runs again
// and is ready.
func (e *env) killDaemon(t *testing.T, node string) {
	t.Helper()
	e.beginKill(t, node)()
}

// killDaemons kills the daemons of some nodes at the same time.
func (e *env) killDaemons(t *testing.T, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		defer e.beginKill(t, node)()
	}
}

// beginKill kills a node's daemon. The function that it returns waits until the daemon's
// container runs again and is ready.
func (e *env) beginKill(t *testing.T, node string) (back func()) {
	t.Helper()
	ctx := within(t, patience)
	before, err := e.Lab.DaemonPod(ctx, node)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Lab.KillDaemon(ctx, node); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		err := scene.Until(ctx, "the daemon on "+node+" to be back", func(ctx context.Context) (bool, string, error) {
			now := &corev1.Pod{}
			err := e.Client.Get(ctx, client.ObjectKeyFromObject(before), now)
			return err == nil && restarts(now) > restarts(before) && scene.IsReady(now), fmt.Sprintf("%d restarts", restarts(now)), err
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, e.Describe(context.Background(), before))
		}
	}
}

func restarts(pod *corev1.Pod) (sum int32) {
	for _, container := range pod.Status.ContainerStatuses {
		sum += container.RestartCount
	}
	return sum
}

// beginRollOut replaces the daemon's pods on all nodes, as an upgrade does, and returns
// when the first new one is scheduled: the old daemon of that node has ended. The function
// that it returns waits until the new ones are ready.
func (e *env) beginRollOut(t *testing.T) (back func()) {
	t.Helper()
	ctx := within(t, 2*patience)
	daemon, err := e.Lab.DaemonPod(ctx, e.Lab.Nodes()[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	name := metav1.GetControllerOf(daemon).Name
	patch := `{"spec":{"template":{"metadata":{"annotations":{"e2e.alioth.dev/rollout":` + strconv.Quote(unique("at")) + `}}}}}`
	sets := e.Lab.Client().AppsV1().DaemonSets(cluster.SystemNamespace)
	patched, err := sets.Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = scene.Until(ctx, "a new daemon's pod", func(ctx context.Context) (bool, string, error) {
		now, err := sets.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		s := now.Status
		return s.ObservedGeneration >= patched.Generation && s.UpdatedNumberScheduled > 0, fmt.Sprintf("%+v", s), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := e.Lab.WaitDaemonSetReady(ctx, cluster.SystemNamespace, name); err != nil {
			t.Fatal(err)
		}
	}
}
