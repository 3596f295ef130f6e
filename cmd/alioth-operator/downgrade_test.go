// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// stateFormat is the annotation of the Lease with the format of the cluster's state.
const stateFormat = "alioth.dev/state-format"

// TestOlderOperator_NewerState_WritesNothing has somebody take the note away in the end.
func TestOlderOperator_NewerState_WritesNothing(t *testing.T) {
	w := newWorld(t, "downgrade")
	client, err := coordination.NewForConfig(w.config)
	if err != nil {
		t.Fatal(err)
	}
	leases := client.Leases(w.name)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "alioth-operator", Annotations: map[string]string{stateFormat: "1000"}}}
	if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := checkUpgrade(t.Context(), w.config, w.name); err == nil || !strings.Contains(err.Error(), stateFormat) {
		t.Errorf("the hook of the chart: %v", err)
	}
	r := startReplica(t, w.config, w.name)
	w.eventually(func() error {
		terms, err := r.metric(termsMetric)
		if err == nil && terms < 3 {
			err = fmt.Errorf("it has begun %g terms", terms)
		}
		return err
	})
	if r.ready() == nil {
		t.Error("the operator is ready, so that a roll-out of it would go on")
	}
	for _, request := range r.gateway.since(0) {
		if request.write() {
			t.Errorf("it has sent %s %s", request.method, request.path)
		}
	}
	patch := []byte(`{"metadata":{"annotations":{"` + stateFormat + `":null}}}`)
	if _, err := leases.Patch(t.Context(), lease.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually(r.leads)
	now, err := leases.Get(t.Context(), lease.Name, metav1.GetOptions{})
	if err != nil || now.Annotations[stateFormat] == "" {
		t.Errorf("the leader has noted no format: %v, %v", now.Annotations, err)
	}
	if err := checkUpgrade(t.Context(), w.config, w.name); err != nil {
		t.Errorf("the hook of the chart: %v", err)
	}
}
