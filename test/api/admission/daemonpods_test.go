// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// The daemon reports the interfaces of a pod by one annotation.
func TestDaemonPodWrite_OtherAnnotationOrNode_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("daemon-pods", nil))
	on := func(node string) *corev1.Pod {
		p := pod("daemon-pods", "on-"+node, node)
		p.Annotations = map[string]string{"kept": "x"}
		return p
	}
	for _, node := range []string{"node-a", "node-b"} {
		create(t, admin, on(node))
	}
	status := annotate(annotations.NetworkStatusKey, "[]")
	// Another policy refuses some of these changes too. The API server names either of them.
	const either = "denied request"
	const one, own = "the annotation k8s.v1.cni.cncf.io/network-status of a pod only", "of its own node only"
	mine := func(name string, edit func(*corev1.Pod), refused string) change[*corev1.Pod] {
		return change[*corev1.Pod]{name: name, who: daemonOn("node-a"), object: on("node-a"), edit: edit, refused: refused}
	}
	changes := []change[*corev1.Pod]{
		mine("the network status", status, ""),
		mine("the operator's annotation", annotate(v1alpha1.AttachmentsAnnotation, "[]"), either),
		mine("the status and one more", func(p *corev1.Pod) {
			status(p)
			annotate("more", "x")(p)
		}, one),
		mine("another value", annotate("kept", "y"), one),
		mine("a label", func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, "app", "x") }, one),
		mine("a finalizer", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/mine"} }, one),
		mine("its phase", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, one),
		mine("its IP", func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "192.0.2.1", []corev1.PodIP{{IP: "192.0.2.1"}} }, one),
		mine("its condition", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		}, one),
		mine("the operator's condition", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: v1alpha1.NetworkReadyCondition, Status: corev1.ConditionTrue})
		}, either),
		{name: "a pod of another node", who: daemonOn("node-b"), object: on("node-a"), edit: status, refused: own},
		{name: "with a token of no node", who: daemonOn(""), object: on("node-a"), edit: status, refused: "needs a token"},
	}
	for i := range changes { // it may patch and nothing else
		changes[i].through, changes[i].except = "status", byUpdate
	}
	runChanges(t, append(changes, change[*corev1.Pod]{name: "past the status", who: daemonOn("node-a"), object: on("node-a"), edit: status, refused: "cannot"}))
	run(t, []attempt{
		{"it deletes no pod", daemonOn("node-a"), func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, on("node-a"), client.DryRunAll)
		}, "cannot delete resource"},
		{"it removes no annotation", daemonOn("node-a"), func(ctx context.Context, c client.Client) error {
			return c.Status().Patch(ctx, on("node-a"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"kept":null}}}`)))
		}, one},
	})
}
