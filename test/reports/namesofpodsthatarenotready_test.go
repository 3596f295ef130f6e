// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
)

var _ = kept(Report{
	Name: "names-of-pods-that-are-not-ready", Source: "kubernetes/kubernetes#58662", Kind: names,
	Input: "A headless Service publishes addresses of pods that are not ready. Its pod never is.",
	Want:  "The name of the Service has the addresses of the pod, and other pods reach them.",
	Run: func(t *testing.T, l *lab) {
		service := scene.Service(l.tenant.Namespace.Name, "early", "early")
		service.Spec.ClusterIP, service.Spec.PublishNotReadyAddresses = corev1.ClusterIPNone, true
		never := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/no-such-program"}}}
		pod := l.tenant.Pod("early", scene.WithLabel("app", "early"), scene.WithReadiness(never))
		l.Make(t, service, pod)
		var own []string
		until(t, "addresses of the pod", func(ctx context.Context) (bool, string, error) {
			err := l.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
			own = nil
			for _, ip := range scene.IPs(pod) {
				own = append(own, ip.String())
			}
			return len(own) == 2, string(pod.Status.Phase), err
		})
		until(t, fmt.Sprint("the name has ", own), func(ctx context.Context) (bool, string, error) {
			out, err := l.in(l.asker)(ctx, "resolve", service.Name+"."+service.Namespace+".svc.cluster.local")
			got := strings.Fields(out)
			slices.Sort(got)
			slices.Sort(own)
			return slices.Equal(got, own), fmt.Sprint(got, err), nil
		})
		question{from: l.in(l.asker), targets: scene.Targets([]string{"tcp", "udp"}, scene.IPs(pod)...)}.await(t, name(pod))
	},
})
