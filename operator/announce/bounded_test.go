// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// boundedTo has a writer with bounds on a clock of its own.
func boundedTo(to *recorded) (recorder *bounded, now *clocktesting.FakePassiveClock, withheld *tally) {
	now, withheld = clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0)), new(tally)
	return NewBounded(to, now, withheld).(*bounded), now, withheld
}

// pass lets time pass.
func pass(now *clocktesting.FakePassiveClock, d time.Duration) {
	then := now.Now()
	now.SetTime(then.Add(d))
}

// tally counts events.
type tally int

// Inc implements counter.
func (t *tally) Inc() { *t++ }

func warn(recorder *bounded, namespace, reason string, i int) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("p", i)}}
	recorder.Eventf(pod, nil, corev1.EventTypeWarning, reason, "Assign", "pod %d of %s", i, namespace)
}

// TestEvents_NamespaceFloods_Cut also checks that events of other namespaces, and of objects
// without a namespace, are not cut.
func TestEvents_NamespaceFloods_Cut(t *testing.T) {
	const most = burst + reasonBurst
	to := &recorded{}
	recorder, now, withheld := boundedTo(to)
	for i := range 10_000 {
		warn(recorder, "crowd", "Refused", i)
	}
	if len(to.notes) != most+1 || *withheld != 10_000-most || !strings.Contains(to.notes[most], v1alpha1.EventsWithheldReason) {
		t.Fatalf("%d events are written and %d withheld, the last is %q", len(to.notes), *withheld, to.notes[len(to.notes)-1])
	}
	warn(recorder, "calm", "Refused", 0)
	recorder.Eventf(&v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "v"}}, nil, corev1.EventTypeWarning, "Overlap", "Check", "x")
	if len(to.notes) != most+3 {
		t.Errorf("events of others are withheld: %q", to.notes[most+1:])
	}
	pass(now, 3*interval)
	for i := range 10 {
		warn(recorder, "crowd", "Refused", i)
	}
	if len(to.notes) != most+6 {
		t.Errorf("after three intervals there are %d events more, want 3", len(to.notes)-most-3)
	}
	pass(now, reasonBurst*reasonInterval)
	for i := range most + 1 {
		warn(recorder, "crowd", "Refused", i)
	}
	if len(to.notes) != 2*most+7 || !strings.Contains(to.notes[len(to.notes)-1], v1alpha1.EventsWithheldReason) {
		t.Errorf("after a pause there are %d events, the last is %q", len(to.notes), to.notes[len(to.notes)-1])
	}
}

// TestEvents_OneReasonFloods_OtherReasonShown: the author of the object first makes any number of events
// of another reason, and goes on.
func TestEvents_OneReasonFloods_OtherReasonShown(t *testing.T) {
	to := &recorded{}
	recorder, now, _ := boundedTo(to)
	flood := func() {
		for i := range 1000 {
			warn(recorder, "crowd", "Refused", i)
		}
	}
	for i := range reasonBurst {
		flood()
		before := len(to.notes)
		warn(recorder, "crowd", "Forged", i)
		if len(to.notes) != before+1 || !strings.Contains(to.notes[before], "Forged") {
			t.Fatalf("event %d of another reason is hidden", i+1)
		}
		pass(now, interval)
	}
	flood()
	before := len(to.notes)
	warn(recorder, "crowd", "Forged", 0)
	if len(to.notes) != before {
		t.Errorf("a reason has more than %d events of its own: %q", reasonBurst, to.notes[before:])
	}
	for i := range 10 * reasonsLimit {
		warn(recorder, "crowd", fmt.Sprint("Reason", i), i)
	}
	if all := len(recorder.namespaces["crowd"].reasons); all != reasonsLimit || len(to.notes) > before+reasonsLimit {
		t.Errorf("%d reasons have events of their own, and %d more events were written", all, len(to.notes)-before)
	}
}

// TestEvents_NamespaceQuiet_Forgotten: their number is not bounded.
func TestEvents_NamespaceQuiet_Forgotten(t *testing.T) {
	recorder, now, _ := boundedTo(&recorded{})
	for i := range 10 * namespacesLimit {
		warn(recorder, fmt.Sprint("n", i), "Refused", i)
		pass(now, interval)
	}
	if len(recorder.namespaces) > namespacesLimit {
		t.Errorf("%d namespaces are remembered", len(recorder.namespaces))
	}
}
