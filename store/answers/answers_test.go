// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"fmt"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

func node(name string, ready, outOfService bool) *store.Node {
	return &store.Node{Meta: operatortest.Meta("uid-"+name, 0), Name: name, Ready: ready, OutOfService: outOfService}
}

func said(name, owner, call string, vnis ...uint32) *store.RollCall {
	return &store.RollCall{Meta: operatortest.Meta("call-"+name, 0), Name: "node." + name, Call: call, VNIs: vnis, NodeUID: owner}
}

func TestOnlyKnownNodesAreWaitedFor(t *testing.T) {
	s := operatortest.New(t,
		node("answered", true, false), said("answered", "uid-answered", "now", 3),
		node("late", true, false), said("late", "uid-late", "earlier", 3, 5),
		node("away", false, false), said("away", "uid-away", "earlier"),
		node("lost", true, true), said("lost", "uid-lost", "earlier", 7),
		node("anew", true, false), said("anew", "uid-of-its-predecessor", "earlier", 7),
		node("foreign", true, false),
		said("gone", "uid-gone", "earlier", 7))
	s.View(func(tx store.ReadTx) {
		if got := Silent(tx, "now", true); !slices.Equal(got, []string{"late"}) {
			t.Errorf("a term waits for %v, want late", got)
		}
		if got := Silent(tx, "now", false); !slices.Equal(got, []string{"away", "late"}) {
			t.Errorf("a VNI waits for %v, want away and late", got)
		}
		if got := fmt.Sprint(NodesWith(tx, 3), NodesWith(tx, 5), NodesWith(tx, 7)); got != "[answered late] [late] []" {
			t.Errorf("nodes with VNIs 3, 5 and 7 are %s", got)
		}
	})
}

func TestAVNIIsReleasedWhenNoNodeHoldsItInAnswerToACallMadeAfterItsVPCWent(t *testing.T) {
	claim := &store.VNIClaim{Meta: operatortest.Meta("claim", 0), VNI: 3, VPC: "gone", VPCUID: "gone"}
	held := operatortest.Address("gone", "s", "10.0.0.5", operatortest.Pod("gone", "a", "p", "", ""))
	vpc := operatortest.VPC("gone", 3, nil, "10.0.0.0/16")
	vpc.UID = "gone"
	successor := operatortest.VPC("gone", 4, nil, "10.0.0.0/16")
	n, covered := node("n", true, false), map[string]bool{"claim": true}
	for _, tc := range []struct {
		name    string
		rows    []any
		covered map[string]bool
		want    int
	}{
		{"all have answered", []any{n, said("n", "uid-n", "now", 9)}, covered, 1},
		{"there are no nodes", nil, covered, 1},
		{"it rests since the call only", []any{n, said("n", "uid-n", "now")}, nil, 0},
		{"a node has not answered", []any{n, said("n", "uid-n", "earlier")}, covered, 0},
		{"a node that is not Ready has not answered", []any{node("n", false, false), said("n", "uid-n", "earlier")}, covered, 0},
		{"a node holds it", []any{n, said("n", "uid-n", "now", 3)}, covered, 0},
		{"addresses of it are held", []any{held}, covered, 0},
		{"its VPC lives", []any{vpc}, covered, 0},
		{"another VPC has the name", []any{successor, held}, covered, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, append(tc.rows, claim)...).View(func(tx store.ReadTx) {
				if got := Released(tx, "now", tc.covered); len(got) != tc.want {
					t.Errorf("%d claims are released, want %d", len(got), tc.want)
				}
			})
		})
	}
}
