// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/test/waits"
)

func TestEvent_AnyObjectName_NameAcceptedByAPI(t *testing.T) {
	r := &events{node: "node1"}
	names := map[string]bool{}
	for _, about := range []string{
		"web-0", strings.Repeat("a", maxName), strings.Repeat("a", maxName-1) + "b",
		strings.Repeat("a.", maxName/2) + "b", strings.Repeat("a-", maxName/2) + "b",
	} {
		event := r.event(podReference(journal.Pod{Namespace: "ns", Name: about, UID: about}), v1alpha1.AddressLostReason, "text")
		if problems := validation.IsDNS1123Subdomain(event.Name); len(problems) > 0 {
			t.Errorf("%q: %v", event.Name, problems)
		}
		names[event.Name] = true
	}
	if len(names) != 5 {
		t.Errorf("5 events have %d names", len(names))
	}
}

func TestEvent_SameFaultAgain_SameWords(t *testing.T) {
	var list []finding.Repair
	for _, name := range []string{"f", "b", "e", "a", "g", "c", "d"} {
		list = append(list, finding.Repair{Kind: datapath.RepairLink, Detail: name})
	}
	want := []string{"deleted or changed by another program, and repaired: a, b, c, d, e and 2 more"}
	for range 2 {
		if d := cmp.Diff(want, repairMessages(list)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		slices.Reverse(list)
	}
}

// TestConditions_SomeDiffer_OnlyDifferingWritten keeps the time since when a status lasts.
func TestConditions_SomeDiffer_OnlyDifferingWritten(t *testing.T) {
	since, now := metav1.Unix(1, 0), metav1.Unix(2, 0)
	healthy, up := healthCondition(nil), available()
	older, wrong := up, healthy
	older.Message, older.LastTransitionTime = "an older release", since
	wrong.Status, wrong.LastTransitionTime = corev1.ConditionFalse, since
	other := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	for name, c := range map[string]struct {
		have []corev1.NodeCondition
		want map[corev1.NodeConditionType]metav1.Time
	}{
		"both are there":                  {[]corev1.NodeCondition{other, healthy, up}, nil},
		"one was deleted":                 {[]corev1.NodeCondition{other, up}, map[corev1.NodeConditionType]metav1.Time{healthy.Type: now}},
		"both were deleted":               {[]corev1.NodeCondition{other}, map[corev1.NodeConditionType]metav1.Time{healthy.Type: now, up.Type: now}},
		"one has another message":         {[]corev1.NodeCondition{healthy, older}, map[corev1.NodeConditionType]metav1.Time{up.Type: since}},
		"one was changed to the contrary": {[]corev1.NodeCondition{wrong, up}, map[corev1.NodeConditionType]metav1.Time{healthy.Type: now}},
	} {
		var got map[corev1.NodeConditionType]metav1.Time
		for _, written := range differing(c.have, []corev1.NodeCondition{up, healthy}, now) {
			if got == nil {
				got = map[corev1.NodeConditionType]metav1.Time{}
			}
			got[written.Type] = written.LastTransitionTime
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestReporter_EndedContext_EndsRun also where the API server refuses the last write.
func TestReporter_EndedContext_EndsRun(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := kube.New(&rest.Config{Host: "http://127.0.0.1:1"}, scheme)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(tx store.Tx) error {
		return store.PutNode(tx, &store.Node{Meta: store.Meta{UID: "n1"}, Name: "node1"})
	})
	if err != nil {
		t.Fatal(err)
	}
	r := New("node1", api, s, time.Minute, slog.New(slog.DiscardHandler))
	r.Problems(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	waits.Receive(t, 10*time.Second, "the end of Run", ended)
}
