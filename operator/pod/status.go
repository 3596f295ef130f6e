// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// podPatch is a strategic merge patch of a pod's status subresource, which
// takes annotations too. A null annotation is removed; conditions merge by type.
// The UID makes the API server refuse the patch for a successor of the same
// name, and the version makes it refuse the patch if the pod has changed since its
// allocation status was read.
type podPatch struct {
	Metadata struct {
		UID             string             `json:"uid"`
		ResourceVersion string             `json:"resourceVersion"`
		Annotations     map[string]*string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Status struct {
		Conditions []conditionPatch `json:"conditions"`
	} `json:"status"`
}

// conditionPatch is a pod condition without the time of change if it does not change.
type conditionPatch struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	Reason             string                 `json:"reason"`
	Message            string                 `json:"message"`
	ObservedGeneration int64                  `json:"observedGeneration"`
	LastTransitionTime *metav1.Time           `json:"lastTransitionTime,omitempty"`
}

// patchAssigned has the allocation status of a pod.
func patchAssigned(pod *store.Pod, o outcome, now time.Time) podPatch {
	ready := "true"
	patch := patchOf(pod, corev1.ConditionTrue, v1alpha1.AttachedReason, "the pod has its addresses", now)
	patch.Metadata.Annotations = map[string]*string{
		v1alpha1.AttachmentsAnnotation: &o.text,
		arktosv1.UserInputAnnotation:   nil,
		arktosv1.ReadinessAnnotation:   &ready,
	}
	if o.userInput != (annotations.UserInput{}) {
		input := annotations.FormatUserInput(o.userInput)
		patch.Metadata.Annotations[arktosv1.UserInputAnnotation] = &input
	}
	return patch
}

// tooLarge returns the refusal of a pod whose annotations, together with the annotations of a
// patch, would exceed the limit of the API server.
func tooLarge(pod *store.Pod, patch podPatch) (tenancy.Refusal, bool) {
	own := 0
	for key, value := range patch.Metadata.Annotations {
		if value != nil {
			own += len(key) + len(*value)
		}
	}
	excess := pod.AnnotationBytes + own - validation.TotalAnnotationSizeLimitB
	return tenancy.Refusal{
		Reason: v1alpha1.AnnotationsTooLargeReason,
		Message: fmt.Sprintf(
			"the pod's annotations leave no room for its addresses: Kubernetes allows %d bytes in all, the addresses need %d; shorten the annotations by %d bytes",
			validation.TotalAnnotationSizeLimitB,
			own,
			excess,
		),
	}, excess > 0
}

// pretends reports whether a pod's annotations or condition contain addresses.
func pretends(pod *store.Pod) bool { return pod.NetworkReady || pod.Attachments != "" }

// patchRefused has the refusal of a pod, and removes annotations that its creator
// forged.
func patchRefused(pod *store.Pod, refusal tenancy.Refusal, now time.Time) podPatch {
	patch := patchOf(pod, corev1.ConditionFalse, refusal.Reason, refusal.Message, now)
	if pretends(pod) {
		patch.Metadata.Annotations = map[string]*string{
			v1alpha1.AttachmentsAnnotation: nil,
			arktosv1.UserInputAnnotation:   nil,
			arktosv1.ReadinessAnnotation:   nil,
		}
	}
	return patch
}

func patchOf(pod *store.Pod, status corev1.ConditionStatus, reason, message string, now time.Time) podPatch {
	condition := conditionPatch{
		Type: v1alpha1.NetworkReadyCondition, Status: status, Reason: reason, Message: quote.Message(message),
		ObservedGeneration: pod.Generation,
	}
	refusedBefore := pod.Reason != "" && pod.Reason != v1alpha1.AttachedReason
	if status == corev1.ConditionTrue || !refusedBefore {
		condition.LastTransitionTime = &metav1.Time{Time: now}
	}
	var patch podPatch
	patch.Metadata.UID = pod.UID
	patch.Status.Conditions = []conditionPatch{condition}
	return patch
}

// patch writes the status of a pod that has been decided. It does not change an allocation
// status that came since: another operator, or a request of this one with a lost reply, may
// have written one that the store does not have yet. The store's version of the pod is the
// precondition. If other writers, such as the kubelet, have changed the pod, patch reads
// a newer version from the API server.
func (r *Reconciler) patch(ctx context.Context, pod *store.Pod, patch podPatch) error {
	var row *store.Pod
	r.Store.View(func(tx store.ReadTx) { row = store.GetPod(tx, pod.UID) })
	switch {
	case row == nil:
		return claim.ErrHolderGone
	case isOvertaken(pod, row):
		return errAssigned
	}
	patch.Metadata.ResourceVersion = row.ResourceVersion
	err := r.write(ctx, pod, patch)
	if !apierrors.IsConflict(err) {
		return err
	}
	if patch.Metadata.ResourceVersion, err = r.undecidedVersion(ctx, pod); err != nil {
		return err
	}
	return r.write(ctx, pod, patch)
}

// write sends a patch and puts the result into the store at once, so that the next decision
// compares it, whatever event comes first.
func (r *Reconciler) write(ctx context.Context, pod *store.Pod, patch podPatch) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	object := reference(pod)
	if err := r.Client.Status().Patch(ctx, object, client.RawPatch(types.StrategicMergePatchType, text)); err != nil {
		return fmt.Errorf("patch status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return r.take(object)
}

// take puts a pod into the store ahead of its watch event, unless the event of its
// deletion has come or the store has a newer version.
func (r *Reconciler) take(object *corev1.Pod) error {
	row, err := feed.Pod.Row(object)
	if err != nil || row == nil {
		return err
	}
	uid := string(object.UID)
	var before, after *store.Pod
	err = r.Store.Update(func(tx store.Tx) error {
		if before = store.GetPod(tx, uid); before == nil {
			return nil
		}
		err := feed.Pod.Put(tx, row)
		after = store.GetPod(tx, uid)
		return err
	})
	if err == nil && before != after {
		r.Claimer.Feed.Publish(feed.Change{Old: before, New: after})
	}
	return err
}

// reference has the fields of the pod that events and patches need.
func reference(pod *store.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID),
	}}
}
