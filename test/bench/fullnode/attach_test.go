// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package fullnode

import (
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// TestRig_Pod_Attached attaches a pod in the way of the benches: they write the objects of the operator
// themselves, so a daemon that wants other objects stops them.
func TestRig_Pod_Attached(t *testing.T) {
	needs.Root(t, "to make network namespaces")
	needs.Kubernetes(t)
	ctx := waits.Within(t, 2*time.Minute)
	s, err := New("../../..", 1, time.Second, t.Output(), func(text string) { t.Log(text) }).newScaleRig(ctx)
	t.Cleanup(func() {
		if err := s.remove(ctx); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.create(ctx, scaleNode(s.empty.Name, s.empty.Address)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.empty.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.vpc(ctx, 0, 2, s.empty, "first"); err != nil {
		t.Error(err)
	}
}
