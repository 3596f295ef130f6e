// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"errors"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func TestAVNIThatWasJustReleasedIsTheLastResort(t *testing.T) {
	released, now := &ReleasedVNIs{}, time.Unix(2_000_000, 0)
	released.Add(2, now)
	used := map[uint32]bool{1: true, 4: true}
	for _, want := range []uint32{3, 2} {
		got, err := unusedVNI(used, 4, released, now)
		if err != nil || got != want {
			t.Errorf("got %d, %v; want %d", got, err, want)
		}
		used[got] = true
	}
	var refusal *Error
	if _, err := unusedVNI(used, 4, released, now); !errors.As(err, &refusal) || refusal.Reason != v1alpha1.VNIExhaustedReason {
		t.Errorf("with none free: %v", err)
	}
}
