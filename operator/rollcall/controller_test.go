// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rollcall

import (
	"slices"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
)

// TestWaitingObjects_TermSettled_RequestedOnce: there are as many replies as nodes,
// and perhaps as many waiting objects.
func TestWaitingObjects_TermSettled_RequestedOnce(t *testing.T) {
	waiting := []feed.Request{feed.Now("", "a"), feed.Now("", "b")}
	question := &store.RollCall{Name: v1alpha1.OperatorRollCall, Call: "now"}
	reply := &store.RollCall{Name: v1alpha1.NodeRollCall("node1"), Call: "now"}
	for name, c := range map[string]struct {
		settled bool
		change  feed.Change
		want    []feed.Request
	}{
		"the term is settled":              {true, feed.Change{Old: question, New: question}, waiting},
		"its question is gone":             {true, feed.Change{Old: question}, waiting},
		"a node replies":                   {true, feed.Change{New: reply}, nil},
		"the reply of a node is gone":      {true, feed.Change{Old: reply}, nil},
		"a question before it is settled":  {false, feed.Change{New: question}, nil},
		"something that is no roll call":   {true, feed.Change{New: &store.Node{Name: "node1"}}, nil},
		"a question that was written over": {true, feed.Change{New: question}, waiting},
	} {
		t.Run(name, func(t *testing.T) {
			settled := OnSettled(func() bool { return c.settled }, func(store.ReadTx) []feed.Request { return waiting })
			if got := settled(nil, c.change); !slices.Equal(got, c.want) {
				t.Errorf("requested are %v, want %v", got, c.want)
			}
		})
	}
}
