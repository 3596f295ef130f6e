// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// trafficOf starts a stream from the first pod to the second, and one to a Service whose only
// backend the second pod is.
func (l *life) trafficOf(ctx context.Context, t *testing.T, pods []*corev1.Pod) []*stage.Traffic {
	t.Helper()
	from, to := pods[0], pods[1]
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: to.Namespace, Name: stage.Unique("stream")},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": to.Name}, Ports: []corev1.ServicePort{{Port: report.PortStream}}},
	}
	before := to.DeepCopy()
	metav1.SetMetaDataLabel(&to.ObjectMeta, "app", to.Name)
	if err := l.Client.Patch(ctx, to, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	l.Make(t, service)
	address := netip.MustParseAddr(service.Spec.ClusterIP)
	return []*stage.Traffic{
		l.StartTraffic(ctx, t, "pod to pod", from, scene.IP(to, false)),
		l.StartStream(ctx, t, "pod to Service", from, address),
	}
}

// systemPods returns the UIDs of Alioth's own pods.
func (l *life) systemPods(ctx context.Context, t *testing.T) map[string]bool {
	t.Helper()
	pods, err := l.Lab.Client().CoreV1().Pods(cluster.SystemNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, pod := range pods.Items {
		all[string(pod.UID)] = true
	}
	return all
}

// expectReplaced requires that Alioth's own pods are all new: none of them is in before.
func (l *life) expectReplaced(ctx context.Context, t *testing.T, before map[string]bool) {
	t.Helper()
	for uid := range l.systemPods(ctx, t) {
		if before[uid] {
			t.Errorf("the upgrade has not replaced the pod of Alioth with UID %s", uid)
		}
	}
}

// expectUpgrade upgrades while traffic flows. No connection breaks, and all that was decided
// stays as it was.
func (l *life) expectUpgrade(t *testing.T, pods []*corev1.Pod, upgrade func(ctx context.Context)) {
	t.Helper()
	ctx := within(t)
	flows := l.trafficOf(ctx, t, pods)
	before, own := l.Decided(ctx, t), l.systemPods(ctx, t)
	upgrade(ctx)
	l.expectReplaced(ctx, t, own)
	for _, flow := range flows {
		l.ExpectUnharmed(t, flow)
	}
	l.ExpectDecided(ctx, t, before)
}
