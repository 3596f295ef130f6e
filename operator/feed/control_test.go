// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestControl_Conflict_RetriedSlowerWithoutError(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "vpcs"}, "v", errors.New("changed"))
	answers := map[string]error{"a": conflict, "b": conflict}
	p := newPatient(reconcile.Func(func(_ context.Context, request ctrl.Request) (ctrl.Result, error) {
		return ctrl.Result{}, answers[request.Name]
	}))
	look := func(name string) (time.Duration, error) {
		result, err := p.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
		return result.RequeueAfter, err
	}
	for _, want := range []time.Duration{stalePause, 2 * stalePause, 4 * stalePause} {
		if pause, err := look("a"); err != nil || pause != want {
			t.Errorf("again after %s, error %v; want %s", pause, err, want)
		}
	}
	if pause, err := look("b"); err != nil || pause != stalePause {
		t.Errorf("another object: again after %s, error %v; want %s", pause, err, stalePause)
	}
	for range 10 {
		if pause, err := look("a"); err != nil || pause > staleLongest {
			t.Errorf("again after %s, error %v; want %s at most", pause, err, staleLongest)
		}
	}
	answers["a"] = nil
	if pause, err := look("a"); err != nil || pause != 0 {
		t.Errorf("after success: again after %s, error %v", pause, err)
	}
	answers["a"] = conflict
	if pause, err := look("a"); err != nil || pause != stalePause {
		t.Errorf("after success and a conflict: again after %s, error %v; want %s", pause, err, stalePause)
	}
	answers["a"] = errors.New("broken")
	if _, err := look("a"); err == nil {
		t.Error("an error is hidden")
	}
}
