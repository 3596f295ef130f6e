// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet_test

import (
	"testing"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

func TestClaims_ByPodAndNetwork_Found(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	pod := &store.Pod{Meta: store.Meta{UID: "p1"}, Namespace: "shop", Name: "web", Node: "n1"}
	claim := func(namespace, pod, uid, node, iface, network string) *multinet.Claim {
		name := uid + "." + iface
		return &multinet.Claim{
			Meta: store.Meta{UID: "uid-" + namespace + name}, Namespace: namespace, Name: name, PodName: pod, PodUID: uid, Node: node,
			Interface: iface, Network: store.NetworkRef{Kind: "DanmNet", Name: "x", UID: network},
		}
	}
	rows := []*multinet.Claim{
		claim("shop", "web", "p1", "n1", "net1", "u1"), claim("shop", "web", "p1", "n1", "net2", "u2"),
		claim("shop", "web", "p1", "n2", "net3", "u1"), claim("shop", "other", "p1", "n1", "net4", "u1"),
		claim("office", "web", "p1", "n1", "net1", "u1"), claim("shop", "web", "p2", "n1", "net1", "u1"),
	}
	if err := s.Update(func(tx store.Tx) error {
		for _, row := range rows {
			if err := multinet.PutClaim(tx, row); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s.View(func(tx store.ReadTx) {
		if counting, naming := multinet.ClaimsByPod(tx, pod), multinet.ClaimsNaming(tx, "p1"); len(counting) != 2 || counting[0].Interface != "net1" ||
			len(naming) != 5 {
			t.Errorf("%d count for the pod and %d name it, want 2 and 5", len(counting), len(naming))
		}
		if list := multinet.ClaimsByNetwork(tx, "u1"); len(list) != 5 {
			t.Errorf("%d are of the network u1, want 5", len(list))
		}
	})
	if err := s.Update(func(tx store.Tx) error {
		if multinet.DeleteClaim(tx, "shop", "p1.net1", "another") || !multinet.DeleteClaim(tx, "shop", "p1.net1", "uid-shopp1.net1") {
			t.Error("the claim is not deleted by its UID alone")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s.View(func(tx store.ReadTx) {
		if multinet.GetClaim(tx, "shop", "p1.net1") != nil || multinet.GetClaim(tx, "office", "p1.net1") == nil {
			t.Error("the wrong claim is gone")
		}
	})
}
