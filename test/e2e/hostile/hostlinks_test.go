// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// victimsVNI is the VXLAN of the victim's network.
const victimsVNI = 7077

// TestNetworkDevice_LinkOfOtherTenant_Refused: the author of a network may name any device of the
// nodes, and the name of a link follows from the NetworkID of its network.
func TestNetworkDevice_LinkOfOtherTenant_Refused(t *testing.T) {
	t.Parallel()
	e := start(t)
	_, second := e.Nodes()
	victim, thief := e.Tenant(t, stage.Overlapping("victim")), e.Tenant(t, stage.Overlapping("thief"))
	network := func(of *scene.Tenant, name string, options danmv1.NetworkOptions) *danmv1.DanmNet {
		options.CIDR = "10.108.0.0/24"
		return &danmv1.DanmNet{
			ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace.Name, Name: name},
			Spec:       danmv1.NetworkSpec{NetworkID: name, NetworkType: "macvlan", Options: options},
		}
	}
	owned := network(victim, "owned", danmv1.NetworkOptions{HostDevice: nodeDevice, VXLAN: victimsVNI})
	e.Make(t, owned)
	err := scene.Until(stage.Within(t, stage.Patience), "the link of the victim's network", func(context.Context) (bool, string, error) {
		out := e.OnNode(t, second, "ip", "-o", "link", "show", "type", "vxlan")
		return strings.Contains(out, "vx_owned"), out, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	taken, above := network(
		thief,
		"taken",
		danmv1.NetworkOptions{HostDevice: "vx_owned"},
	), network(
		thief,
		"above",
		danmv1.NetworkOptions{HostDevice: "vx_owned", VXLAN: victimsVNI + 1},
	)
	e.Make(t, taken, above)
	for _, net := range []*danmv1.DanmNet{taken, above} {
		pod := thief.Pod(net.Name, scene.OnNode(second), scene.WithInterfaces(fmt.Sprintf(`[{"network":%q,"ip":"dynamic"}]`, net.Name)))
		e.Make(t, pod)
		e.awaitEvent(t, pod, "FailedCreatePodSandBox", "vx_owned is a link of")
		if err := e.Client.Get(stage.Within(t, stage.Patience), client.ObjectKeyFromObject(pod), pod); err != nil || pod.Status.Phase != corev1.PodPending {
			t.Errorf("pod %s is %s: %v", pod.Name, pod.Status.Phase, err)
		}
		e.end(t, pod, net)
	}
}

// end deletes a pod, and then its network, which admission refuses while the network's status
// has the pod.
func (e *env) end(t *testing.T, pod *corev1.Pod, network client.Object) {
	t.Helper()
	ctx := stage.Within(t, stage.Patience)
	if err := e.Client.Delete(ctx, pod); err != nil {
		t.Fatal(err)
	}
	err := scene.Until(ctx, "the network to be deleted", func(ctx context.Context) (bool, string, error) {
		err := client.IgnoreNotFound(e.Client.Delete(ctx, network))
		return err == nil, fmt.Sprint(err), nil
	})
	if err != nil {
		t.Error(err)
	}
}
