// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// TestServiceRequests_VPCChange_EachServiceOnce: many Networks of a tenant name the VPC.
func TestServiceRequests_VPCChange_EachServiceOnce(t *testing.T) {
	list := []any{operatortest.VPC("blue-vpc", 1, []string{"blue"}, "10.0.0.0/16"), &store.Namespace{Name: "red", Tenant: "red"}}
	for i := range 100 {
		list = append(list, operatortest.Network("red", "red", fmt.Sprint("crowd", i), "blue-vpc", 0), &store.Service{Namespace: "red", Name: fmt.Sprint("crowd", i)})
	}
	operatortest.New(t, list...).View(func(tx store.ReadTx) {
		if requests := New(Options{}).ofVPC(tx, "blue-vpc"); len(requests) != 100 {
			t.Errorf("%d requests for 100 Services", len(requests))
		}
	})
}

// TestServiceRequests_CrowdRefused_OthersNotDelayed: an address of a VPC concerns refused Services of
// tenants alone that may use the VPC. The Services of one tenant take turns.
func TestServiceRequests_CrowdRefused_OthersNotDelayed(t *testing.T) {
	mine := operatortest.Address("blue-vpc", "blue-net1", "10.0.1.2", operatortest.Pod("blue", "blue", "a", "", ""))
	theirs := operatortest.Address("red-vpc", "red-net1", "10.0.1.2", operatortest.Pod("red", "red", "a", "", ""))
	ofNode := *theirs
	ofNode.Holder = store.Holder{Kind: store.HolderNode, Name: "node-1"}
	for name, c := range map[string]struct {
		change                func(r *Reconciler, tx store.ReadTx) []feed.Request
		concernsMine, toCrowd bool
	}{
		"an address of mine":   {func(r *Reconciler, tx store.ReadTx) []feed.Request { return r.ofAddress(tx, nil, mine) }, true, false},
		"an address of theirs": {func(r *Reconciler, tx store.ReadTx) []feed.Request { return r.ofAddress(tx, theirs, nil) }, false, true},
		"a node's address":     {func(r *Reconciler, tx store.ReadTx) []feed.Request { return r.ofAddress(tx, &ofNode, nil) }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Options{})
			refusal := &tenancy.Refusal{Reason: "x"}
			r.refused.News(types.NamespacedName{Namespace: "blue", Name: "mine"}, "u", refusal)
			const crowd = 3200
			for i := range crowd {
				r.refused.News(types.NamespacedName{Namespace: "red", Name: fmt.Sprint("crowd", i)}, "u", refusal)
			}
			operatortest.New(t, rows(web(func(*store.Service) {}))...).View(func(tx store.ReadTx) {
				due, mine := map[time.Duration]int{}, 0
				for _, request := range c.change(r, tx) {
					if request.Namespace == "blue" {
						mine++
						continue
					}
					due[request.After]++
				}
				if (mine == 1) != c.concernsMine || (len(due) > 0) != c.toCrowd {
					t.Errorf("%d of mine are requested, and those of the crowd at %d moments", mine, len(due))
				}
				for after, count := range due {
					if count > crowd/50 {
						t.Errorf("%d Services of the crowd are due after %s", count, after)
					}
				}
			})
		})
	}
}
