// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// TestPod_AnnotationsFull_RefusedWithReason fills the annotations of a pod up to the limit of
// the API server, which refuses the operator's patch then.
func TestPod_AnnotationsFull_RefusedWithReason(t *testing.T) {
	w := calm(t)
	const key = "shop.example/notes"
	fill := func(pod *corev1.Pod, size int) {
		pod.Annotations = map[string]string{key: strings.Repeat("x", size-len(key))}
	}
	full := bound("full", "red", "", "node-1")
	fill(full, validation.TotalAnnotationSizeLimitB)
	w.create(full)
	w.create(bound("calm", "red", "", "node-1"))
	w.settle()
	if err := hasReason(v1alpha1.AnnotationsTooLargeReason)(w.pod("full")); err != nil {
		t.Error(err)
	}
	if n := w.operators[0].events["full "+v1alpha1.AnnotationsTooLargeReason]; n != 1 {
		t.Errorf("%d events tell of it, want one", n)
	}
	if err := hasReason(v1alpha1.AttachedReason)(w.pod("calm")); err != nil {
		t.Errorf("another pod of the tenant: %v", err)
	}
	held := w.addresses(full)
	edit(w, full, func(pod *corev1.Pod) { fill(pod, validation.TotalAnnotationSizeLimitB/2) })
	w.settle()
	if err := hasReason(v1alpha1.AttachedReason)(w.pod("full")); err != nil {
		t.Errorf("once it has room: %v", err)
	}
	if now := w.addresses(full); len(held) != 2 || strings.Join(now, " ") != strings.Join(held, " ") {
		t.Errorf("the pod held %v, and holds %v", held, now)
	}
	w.checkAtRest()
}
