// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"math/rand/v2"
	"testing"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/randomhost"
)

func TestRandomHostsComeBack(t *testing.T) {
	randomhost.Worlds(t, 500, func(t *testing.T, r *rand.Rand) {
		m := randomhost.Maker{Rand: r}
		h := &host{randomhost.Furnished(t, m), t}
		before := h.Settled()
		to := randomhost.Destinations()
		a := snapshot.Area{Names: randomhost.Devices(), Made: randomhost.Virtual(), Removed: randomhost.Devices(), Routes: to, Added: randomhost.Additions()}
		image := h.take(a)
		m.Changes = true
		change := m.Change()
		defer func() {
			if t.Failed() {
				t.Logf("after %+v", change)
			}
		}()
		h.Play(change)
		if gone := h.back(image, a); len(gone) > 0 {
			t.Errorf("gone: %v", gone)
		}
		h.Is(before)
	})
}
