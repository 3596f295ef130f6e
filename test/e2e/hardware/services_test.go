// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// answerTime bounds the time of one answer.
var answerTime = stage.AnswerTime

// serves gives a pod the label that the Service of a network selects.
func serves(network string) scene.PodOption { return scene.WithLabel("serves", network) }

// expectClusterIP makes a Service for the pods with the label serves in a DanmNet, and
// requires that its ClusterIP leads an asker to one, over the asker's interface in the network.
func (e *env) expectClusterIP(t *testing.T, network string, asker *corev1.Pod, own string, server *corev1.Pod) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace, Name: network, Annotations: map[string]string{
			annotations.EndpointSelectorKey: fmt.Sprintf(`{"serves":%q}`, network), annotations.NetworkKey: "DanmNet/" + network,
		}},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "echo", Port: report.PortEcho}}},
	}
	e.Make(t, service)
	target := scene.Target("tcp", netip.MustParseAddr(service.Spec.ClusterIP))
	want, from := scene.ServerName(server.Namespace, server.Name), e.OnDevice(t, asker, own, false).String()
	what := fmt.Sprintf("the ClusterIP of %s to lead to %s from %s", network, server.Name, from)
	err := scene.Until(stage.Within(t, stage.Patience), what, func(ctx context.Context) (bool, string, error) {
		results, err := e.Ask(ctx, asker, answerTime, target)
		if err != nil {
			return false, "", err
		}
		r := results[0]
		return r.OK && r.Name == want && r.Peer == from, fmt.Sprintf("%+v", r), nil
	})
	if err != nil {
		t.Error(err)
	}
}
