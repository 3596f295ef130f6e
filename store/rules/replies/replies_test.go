// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package replies

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

func replyOf(name, owner, call string, vnis ...uint32) *store.RollCall {
	return &store.RollCall{Meta: operatortest.Meta("call-"+name, 0), Name: "node." + name, Call: call, VNIs: vnis, NodeUID: owner}
}

func TestSilent_Nodes_OnlyKnownAwaited(t *testing.T) {
	s := operatortest.New(t,
		node("answered", true, false), replyOf("answered", "uid-answered", "now", 3),
		node("late", true, false), replyOf("late", "uid-late", "earlier", 3, 5),
		node("away", false, false), replyOf("away", "uid-away", "earlier"),
		node("lost", true, true), replyOf("lost", "uid-lost", "earlier", 7),
		node("anew", true, false), replyOf("anew", "uid-of-its-predecessor", "earlier", 7),
		node("foreign", true, false),
		replyOf("gone", "uid-gone", "earlier", 7))
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

func TestVNI_NoNodeHoldsAfterCall_Released(t *testing.T) {
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
		{"all have answered", []any{n, replyOf("n", "uid-n", "now", 9)}, covered, 1},
		{"there are no nodes", nil, covered, 1},
		{"it rests since the call only", []any{n, replyOf("n", "uid-n", "now")}, nil, 0},
		{"a node has not answered", []any{n, replyOf("n", "uid-n", "earlier")}, covered, 0},
		{"a node that is not Ready has not answered", []any{node("n", false, false), replyOf("n", "uid-n", "earlier")}, covered, 0},
		{"a node holds it", []any{n, replyOf("n", "uid-n", "now", 3)}, covered, 0},
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

// TestVNIs_NodeHoldsEverything_BoundedByPods lets a node say that it holds
// everything.
func TestVNIs_NodeHoldsEverything_BoundedByPods(t *testing.T) {
	var everything []uint32
	for vni := range uint32(4096) {
		everything = append(everything, vni+1)
	}
	big, mute, boastful := node("big", true, false), node("mute", true, false), node("boastful", true, false)
	big.Pods, boastful.Pods = 10, 1<<31
	for _, tc := range []struct {
		name       string
		node       *store.Node
		vnis       []uint32
		want, over int
	}{
		{"as many as it has pods", big, everything[:10], 10, 0},
		{"some more, of pods that have ended", big, everything[:10+slack], 10 + slack, 0},
		{"everything", big, everything, 10 + slack + 1, 4096 - 10 - slack - 1}, // and VNI 4000 of a VPC that lives
		{"everything, and it has not said how many pods it takes", mute, everything, usualPods + slack + 1, 4096 - usualPods - slack - 1},
		{"everything, and it says that it takes any number of pods", boastful, everything, mostPods + slack + 1, 4096 - mostPods - slack - 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			honest := node("honest", true, false)
			operatortest.New(t, tc.node, replyOf(tc.node.Name, tc.node.UID, "now", tc.vnis...),
				honest, replyOf("honest", "uid-honest", "now", 4096), operatortest.VPC("lives", 4000, nil, "10.0.0.0/16"),
			).View(func(tx store.ReadTx) {
				if got := len(HeldVNIs(tx)) - 1; got != tc.want {
					t.Errorf("%d VNIs are believed, want %d", got, tc.want)
				}
				var over int
				for _, one := range Excessive(tx) {
					if one.Node != tc.node.Name {
						t.Errorf("%s is not believed", one.Node)
					}
					over += one.Surplus
				}
				if over != tc.over {
					t.Errorf("%d VNIs are not believed, want %d", over, tc.over)
				}
				if got := NodesWith(tx, 4096); !slices.Equal(got, []string{"honest"}) {
					t.Errorf("VNI 4096 is kept by %v, want the honest node alone", got)
				}
			})
		})
	}
}
