// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netservice

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// atLimit are rules with a limit of two Services.
var atLimit = Rules{DefaultVPC: "default", Services: 2}

// aged returns a Service of that age that selects app=web; a higher number is younger.
func aged(namespace, name string, age int) *store.Service {
	row := selectingIn(named("DanmNet", "lan"))
	row.Meta, row.Namespace, row.Name = operatortest.Meta("uid-"+namespace+name, age), namespace, name
	return row
}

// twoTenants has tenant blue in namespaces blue and annex, and tenant red in namespace red.
func twoTenants(more ...any) []any {
	rows := []any{
		&store.Namespace{Meta: operatortest.Meta("uid-ns-annex", 0), Name: "annex", Tenant: "blue"},
		&store.Namespace{Meta: operatortest.Meta("uid-ns-red", 0), Name: "red", Tenant: "red"},
	}
	return base(append(rows, more...)...)
}

// TestServiceLimit_Tenant_OldestCountFirst: the oldest count first, in all namespaces together.
// Services without annotations, and Services of other tenants, do not count.
func TestServiceLimit_Tenant_OldestCountFirst(t *testing.T) {
	plain, unreadable, selects := aged("blue", "plain", 0), aged("blue", "unreadable", 0), aged("blue", "selects", 0)
	plain.Endpoints, unreadable.Endpoints, selects.Selectorless = nil, &store.EndpointSelection{Problem: "x"}, false
	rows := []any{
		aged("blue", "third", 3), aged("blue", "first", 1), aged("annex", "second", 2), aged("annex", "fourth", 4),
		aged("red", "theirs", 1), plain, unreadable, selects,
	}
	operatortest.New(t, twoTenants(rows...)...).View(func(tx store.ReadTx) {
		for _, row := range rows {
			service := row.(*store.Service)
			above := slices.ContainsFunc(decide(tx, service, atLimit).refusals, hasReason(v1alpha1.TenantLimitReason))
			if want := service.Name == "third" || service.Name == "fourth"; above != want {
				t.Errorf("Service %s is above the limit: %v, want %v", service.Name, above, want)
			}
			if slices.ContainsFunc(decide(tx, service, rules).refusals, hasReason(v1alpha1.TenantLimitReason)) {
				t.Errorf("without a limit Service %s is above it", service.Name)
			}
		}
		refusal := atLimit.checkLimit(tx, aged("blue", "third", 3), "blue")
		if !strings.Contains(refusal.Message, "multiNetwork.tenantLimits.services") {
			t.Errorf("the message names no remedy: %s", refusal.Message)
		}
	})
}

// TestServiceLimit_RoomAgain_NextServiceRequested: a Service goes, or ends to select.
func TestServiceLimit_RoomAgain_NextServiceRequested(t *testing.T) {
	second, third := aged("annex", "second", 2), aged("blue", "third", 3)
	first := aged("blue", "first", 1)
	plain := *first
	plain.Endpoints = nil
	for name, now := range map[string]*store.Service{"it is gone": nil, "it selects no more": &plain} {
		left := []any{second, third, aged("blue", "fourth", 4)}
		if now != nil {
			left = append(left, now)
		}
		operatortest.New(t, twoTenants(left...)...).View(func(tx store.ReadTx) {
			got := requested((&Reconciler{Options: Options{Rules: atLimit}}).ofService(tx, first, now))
			if !slices.Contains(got, "blue/third") {
				t.Errorf("%s: requested are %q, want blue/third among them", name, got)
			}
		})
	}
}

// TestServiceRequests_TenantChanges_OnlyOwnServices has the changes that a tenant can make without limit. Each
// requests Services of its own tenant alone, at most as many as the limit of a namespace.
func TestServiceRequests_TenantChanges_OnlyOwnServices(t *testing.T) {
	crowd := func(size int) []any {
		var rows []any
		for i := range size {
			rows = append(rows, aged("red", fmt.Sprint("crowd", i), i))
		}
		return append(rows, aged("blue", "mine", 1))
	}
	theirs := pod("theirs")
	theirs.Namespace, theirs.Tenant = "red", "red"
	r := &Reconciler{Options: Options{Rules: atLimit}}
	for name, c := range map[string]struct {
		requests     func(tx store.ReadTx) []feed.Request
		mine, theirs int
	}{
		"a Network": {func(tx store.ReadTx) []feed.Request {
			return r.ofNetwork(tx, nil, operatortest.Network("red", "red", "n", "v", 0))
		}, 0, 2},
		"a Network of mine": {func(tx store.ReadTx) []feed.Request {
			return r.ofNetwork(tx, operatortest.Network("blue", "blue", "n", "v", 0), nil)
		}, 1, 0},
		"a DanmNet": {func(tx store.ReadTx) []feed.Request { return r.ofOutside(tx, nil, outside("DanmNet", "red", "lan")) }, 0, 2},
		"a definition": {func(tx store.ReadTx) []feed.Request {
			return r.ofDefinition(tx, nil, &multinet.Definition{Namespace: "red", Name: "lan"})
		}, 0, 0},
		"a pod":     {func(tx store.ReadTx) []feed.Request { return r.ofPod(tx, nil, theirs) }, 0, 2},
		"a Service": {func(tx store.ReadTx) []feed.Request { return r.ofService(tx, nil, aged("red", "crowd0", 0)) }, 0, 3},
		"a ClusterNetwork": {func(tx store.ReadTx) []feed.Request {
			return r.ofOutside(tx, nil, outside("ClusterNetwork", "", "lan"))
		}, 0, 0},
		"a VPC": {func(tx store.ReadTx) []feed.Request {
			return r.ofVPC(tx, nil, operatortest.VPC("v", 9, nil, "10.9.0.0/16"))
		}, 1, 2},
		"a namespace leaves": {func(tx store.ReadTx) []feed.Request {
			return r.ofNamespace(tx, &store.Namespace{Name: "x", Tenant: "red"}, nil)
		}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{3, 3000} {
				operatortest.New(t, twoTenants(crowd(size)...)...).View(func(tx store.ReadTx) {
					mine, theirs := 0, 0
					for _, request := range c.requests(tx) {
						if request.Namespace == "red" {
							theirs++
						} else {
							mine++
						}
					}
					if mine != c.mine || theirs != c.theirs {
						t.Errorf("of %d Services: %d of mine and %d of theirs are requested, want %d and %d", size, mine, theirs, c.mine, c.theirs)
					}
				})
			}
		})
	}
}

func hasReason(reason string) func(*tenancy.Refusal) bool {
	return func(refusal *tenancy.Refusal) bool { return refusal != nil && refusal.Reason == reason }
}

func requested(requests []feed.Request) (names []string) {
	for _, request := range requests {
		names = append(names, request.String())
	}
	return names
}
