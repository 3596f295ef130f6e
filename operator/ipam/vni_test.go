// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"errors"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func TestUnusedVNI_AllUsed_Exhausted(t *testing.T) {
	used := map[uint32]bool{1: true, 4: true}
	for _, want := range []uint32{2, 3} {
		got, err := unusedVNI(used, 4)
		if err != nil || got != want {
			t.Errorf("got %d, %v; want %d", got, err, want)
		}
		used[got] = true
	}
	var refusal *Error
	if _, err := unusedVNI(used, 4); !errors.As(err, &refusal) || refusal.Reason != v1alpha1.VNIExhaustedReason {
		t.Errorf("with none free: %v", err)
	}
}
