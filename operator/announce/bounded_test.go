// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// boundedTo has a writer with bounds on a clock of its own.
func boundedTo(to *told) (recorder *bounded, now *time.Time, withheld *int) {
	now, withheld = &time.Time{}, new(int)
	*now = time.Unix(1_000_000, 0)
	recorder = NewBounded(to, func() time.Time { return *now }, func() { *withheld++ }).(*bounded)
	return recorder, now, withheld
}

func warn(recorder *bounded, namespace string, i int) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("p", i)}}
	recorder.Eventf(pod, nil, corev1.EventTypeWarning, "Refused", "Assign", "pod %d of %s", i, namespace)
}

// TestAFloodOfEventsOfANamespaceIsCut, and those of other namespaces and of objects without
// one are not.
func TestAFloodOfEventsOfANamespaceIsCut(t *testing.T) {
	to := &told{}
	recorder, now, withheld := boundedTo(to)
	for i := range 10_000 {
		warn(recorder, "crowd", i)
	}
	if len(to.notes) != burst+1 || *withheld != 10_000-burst || !strings.Contains(to.notes[burst], v1alpha1.EventsWithheldReason) {
		t.Fatalf("%d events are written and %d withheld, the last is %q", len(to.notes), *withheld, to.notes[len(to.notes)-1])
	}
	warn(recorder, "calm", 0)
	recorder.Eventf(&v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "v"}}, nil, corev1.EventTypeWarning, "Overlap", "Check", "x")
	if len(to.notes) != burst+3 {
		t.Errorf("events of others are withheld: %q", to.notes[burst+1:])
	}
	*now = now.Add(3 * interval)
	for i := range 10 {
		warn(recorder, "crowd", i)
	}
	if len(to.notes) != burst+6 {
		t.Errorf("after three intervals there are %d events more, want 3", len(to.notes)-burst-3)
	}
	*now = now.Add(burst * interval)
	for i := range burst + 1 {
		warn(recorder, "crowd", i)
	}
	if len(to.notes) != 2*burst+7 || !strings.Contains(to.notes[len(to.notes)-1], v1alpha1.EventsWithheldReason) {
		t.Errorf("after a pause there are %d events, the last is %q", len(to.notes), to.notes[len(to.notes)-1])
	}
}

// TestNamespacesWithoutEventsAreForgotten: their number is not bounded.
func TestNamespacesWithoutEventsAreForgotten(t *testing.T) {
	recorder, now, _ := boundedTo(&told{})
	for i := range 10 * bucketsLimit {
		warn(recorder, fmt.Sprint("n", i), i)
		*now = now.Add(interval)
	}
	if len(recorder.buckets) > bucketsLimit {
		t.Errorf("%d namespaces are remembered", len(recorder.buckets))
	}
}
