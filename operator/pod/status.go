// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/tenancy"
)

// podPatch is a strategic merge patch of a pod's status subresource, which
// takes annotations too. A null annotation is removed; conditions merge by type.
// The UID makes the API server refuse the patch for a successor of the same
// name.
type podPatch struct {
	Metadata struct {
		UID         string             `json:"uid"`
		Annotations map[string]*string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Status struct {
		Conditions []conditionPatch `json:"conditions"`
	} `json:"status"`
}

// conditionPatch is a pod condition that leaves out when it changed while it
// does not.
type conditionPatch struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	Reason             string                 `json:"reason"`
	Message            string                 `json:"message"`
	ObservedGeneration int64                  `json:"observedGeneration"`
	LastTransitionTime *metav1.Time           `json:"lastTransitionTime,omitempty"`
}

// patchAssigned tells a pod what it got.
func patchAssigned(pod *store.Pod, o outcome, now time.Time) (podPatch, error) {
	list, err := annotations.FormatAttachments(o.attachments)
	if err != nil {
		return podPatch{}, err
	}
	input, ready := annotations.FormatUserInput(o.userInput), "true"
	patch := patchOf(pod, corev1.ConditionTrue, v1alpha1.AttachedReason, "the pod has its addresses", now)
	patch.Metadata.Annotations = map[string]*string{
		v1alpha1.AttachmentsAnnotation: &list,
		arktosv1.UserInputAnnotation:   &input,
		arktosv1.ReadinessAnnotation:   &ready,
	}
	return patch, nil
}

// pretends tells whether a pod's annotations say that it has addresses.
func pretends(pod *store.Pod) bool { return pod.NetworkReady || pod.Attachments != "" }

// patchRefused tells a pod why it gets nothing, and takes away what its creator
// claimed that it had.
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
		Type: v1alpha1.NetworkReadyCondition, Status: status, Reason: reason, Message: message,
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

func (r *Reconciler) patch(ctx context.Context, pod *store.Pod, patch podPatch) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	object := reference(pod)
	if err := r.Client.Status().Patch(ctx, object, client.RawPatch(types.StrategicMergePatchType, text)); err != nil {
		return fmt.Errorf("patch status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// reference is as much of the pod as events and patches need.
func reference(pod *store.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID),
	}}
}
