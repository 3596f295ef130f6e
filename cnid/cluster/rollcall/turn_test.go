// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rollcall

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/alioth-net/alioth/store"
)

func TestRollCall_LargeCluster_NodesReplyInTurn(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		nodes int
		most  time.Duration
	}{
		"no node is known":      {0, 0},
		"small":                 {200, 0},
		"5 ms for each node":    {400, 2 * time.Second},
		"5 s in all":            {1000, 5 * time.Second},
		"5 s, however large":    {5000, 5 * time.Second},
		"5 s, larger than ever": {1_000_000, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &RollCall{store: s, nodes: func(store.ReadTx) int { return c.nodes }}
				// Of 200 turns, these are all in one half of the time once in 2^199.
				var early, late int
				for range 200 {
					began := time.Now()
					r.spread(t.Context())
					took := time.Since(began)
					if took > c.most {
						t.Fatalf("a node waited %s for its turn, the last one waits at most %s", took, c.most)
					}
					if took < c.most/2 {
						early++
					} else {
						late++
					}
				}
				if c.most > 0 && (early == 0 || late == 0) {
					t.Errorf("%d turns in the first half of %s, %d in the second", early, c.most, late)
				}
			})
		})
	}
}
