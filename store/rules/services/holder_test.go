// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/services"
)

// blueSite is node-1 in the tenant's VPC.
var blueSite = services.Site{VPC: "blue-vpc", DefaultVPC: "default"}

// A tenant has the Service web in blue-vpc. Others have pods in the VPC too.
func TestBackends_SliceNamesPods_OnlyAllowedOnes(t *testing.T) {
	mine, other := operatortest.Pod("blue", "blue-a", "mine", "", ""), operatortest.Pod("blue", "blue-a", "other", "", "")
	sister, victim := operatortest.Pod("blue", "blue-b", "sister", "", ""), operatortest.Pod("red", "red-a", "victim", "", "")
	nobody := operatortest.Pod("blue", "nowhere", "nobody", "", "")
	node := heldBy(mine, "10.0.0.1", "node-1")
	node.Holder = store.Holder{Kind: store.HolderNode, Name: "node-1", UID: mine.UID}
	external := heldBy(mine, "10.0.0.1", "node-1")
	external.External = true
	unnamed := heldBy(mine, "10.0.0.1", "node-1")
	unnamed.Holder.UID = ""
	for name, c := range map[string]struct {
		holder *store.Address
		// uid is the UID of the pod in the slice.
		uid string
		// bySelector and byHand report whether a Service with or without a selector leads there.
		bySelector, byHand bool
	}{
		"the pod that the slice names":              {heldBy(mine, "10.0.0.1", "node-1"), mine.UID, true, true},
		"another pod of the namespace":              {heldBy(other, "10.0.0.1", "node-1"), mine.UID, false, true},
		"a pod that the slice does not name":        {heldBy(mine, "10.0.0.1", "node-1"), "", false, true},
		"another tenant's pod":                      {heldBy(victim, "10.0.0.1", "node-1"), mine.UID, false, false},
		"another tenant's pod, by its UID":          {heldBy(victim, "10.0.0.1", "node-1"), victim.UID, false, false},
		"the tenant's pod of another namespace":     {heldBy(sister, "10.0.0.1", "node-1"), sister.UID, false, true},
		"a pod of a namespace that is not there":    {heldBy(nobody, "10.0.0.1", "node-1"), nobody.UID, false, false},
		"the address of a node":                     {node, mine.UID, false, false},
		"an address without a holder's UID":         {unnamed, "", false, false},
		"an interface of another CNI plugin":        {external, mine.UID, false, false},
		"the same address, held in another VPC":     {operatortest.Address("red-vpc", "net1", "10.0.0.1", mine), mine.UID, false, false},
		"a load balancer's, with the Service's UID": {operatortest.ServiceAddress("blue-vpc", "lb", "10.0.0.1", service("blue-a", "web", "")), "uid-blue-a-web", false, false},
	} {
		for selectorless, want := range map[bool]bool{false: c.bySelector, true: c.byHand} {
			web := service("blue-a", "web", "", "10.96.0.1")
			web.Selectorless = selectorless
			e := endpoint(true, false, "10.0.0.1")
			e.PodUID = c.uid
			s := operatortest.New(t, operatortest.VPC("blue-vpc", 2, []string{"*"}, "10.0.0.0/16"), web, c.holder,
				namespace("blue-a", "blue"), namespace("blue-b", "blue"), namespace("red-a", "red"),
				slice("a", store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080}, e))
			s.View(func(tx store.ReadTx) { wantLed(t, tx, web, name, want) })
		}
	}
}

// wantLed checks all that is said of where a Service leads whose slices name 10.0.0.1 on
// node-1.
func wantLed(t *testing.T, tx store.ReadTx, web *store.Service, name string, want bool) {
	t.Helper()
	port := http80
	spread := verdict(tx, blueSite, web, port).Spread(tx, "node-1", port, ipfamily.IPv4)
	for what, got := range map[string]bool{
		"inside":   len(verdict(tx, site, web, port).Reached(tx, "node-1", port, ipfamily.IPv4)) == 1,
		"outside":  len(spread.Here) == 1,
		"ready":    services.ReadyOn(tx, blueSite, web)["node-1"],
		"not left": len(services.LeftOut(tx, site, web)) == 0,
	} {
		if got != want {
			t.Errorf("%s, without a selector %v: %s: %v, want %v", name, web.Selectorless, what, got, want)
		}
	}
	if len(spread.Elsewhere) != 0 {
		t.Errorf("%s: on other nodes %v, want none", name, spread.Elsewhere)
	}
}

// A planner plans again after a change of each row that the answer depends on.
func TestIsWide_Services_TrueBeyondHeldAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		selectorless bool
		named        []string
		want         bool
	}{
		"pods of a selector":    {false, []string{"10.0.0.1"}, false},
		"one that nobody holds": {false, []string{"10.0.0.1", "10.0.0.9"}, true},
		"pods by hand":          {true, []string{"10.0.0.1"}, true},
		"nobody at all":         {true, nil, false},
	} {
		web := service("blue-a", "web", "", "10.96.0.1")
		web.Selectorless = c.selectorless
		operatortest.New(t, web, held("10.0.0.1", "node-1")).View(func(tx store.ReadTx) {
			var named []netip.Addr
			if c.named != nil {
				named = operatortest.Addrs(c.named...)
			}
			if got := services.IsWide(tx, "blue-vpc", web, named); got != c.want {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		})
	}
}
