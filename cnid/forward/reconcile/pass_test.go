// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
)

func TestReconcilePass_ProgrammableVNI_AllReported(t *testing.T) {
	l, _ := newTestLoop(t, broadcast.Open)
	has := &followed{records: []journal.Record{{Binding: journal.Binding{VPC: "blue", VNI: 20}}}, vpcs: []string{"green", "pending", "not yet there"}}
	l.cfg.Journal, l.cfg.Sources = has, has
	err := l.cfg.Store.Update(func(tx store.Tx) error {
		green, pending, elsewhere := testrows.VPC(
			"green",
			40,
			"10.40.0.0/16",
		), testrows.VPC(
			"pending",
			0,
			"10.50.0.0/16",
		), testrows.VPC(
			"elsewhere",
			60,
			"10.60.0.0/16",
		)
		return errors.Join(store.PutVPC(tx, &green), store.PutVPC(tx, &pending), store.PutVPC(tx, &elsewhere))
	})
	if err != nil {
		t.Fatal(err)
	}
	l.planned.vnis[30] = true // of a pass that is under way
	if diff := cmp.Diff([]uint32{20, 30, 40}, l.VNIs()); diff != "" {
		t.Errorf("VNIs (-want +got):\n%s", diff)
	}
	has.records = nil
	l.planned.programmed(plan.Wanted{}) // the pass after
	if diff := cmp.Diff([]uint32{40}, l.VNIs()); diff != "" {
		t.Errorf("VNIs after the pod has gone (-want +got):\n%s", diff)
	}
}
