// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver //nolint:testpackage // the merge of results is an inner step

import (
	"net/netip"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// A runtime counts an address without an interface as one of eth0, so it would be the pod's.
func TestResult_ReportedAddresses_EachHasInterface(t *testing.T) {
	for name, reported := range map[string]*ifdriver.Result{
		"without interfaces, before CNI 0.3.0": {Addrs: []ifdriver.ResultAddr{{Addr: netip.MustParsePrefix("192.0.2.5/24"), Interface: -1}}},
		"without an index": {
			Interfaces: []ifdriver.ResultInterface{{Name: "br0"}, {Name: "net1", Sandbox: "/run/netns/x"}},
			Addrs:      []ifdriver.ResultAddr{{Addr: netip.MustParsePrefix("192.0.2.5/24"), Interface: -1}},
		},
		"with an index": {
			Interfaces: []ifdriver.ResultInterface{{Name: "br0"}, {Name: "net1", Sandbox: "/run/netns/x"}},
			Addrs:      []ifdriver.ResultAddr{{Addr: netip.MustParsePrefix("192.0.2.5/24"), Interface: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			res := &types100.Result{Interfaces: []*types100.Interface{{Name: "eth0", Sandbox: "/run/netns/x"}}}
			merge(res, attachment.Attached{
				Record: journal.Record{Identity: journal.Identity{Key: journal.Key{ContainerID: "c", IfName: "net1"}, NetnsPath: "/run/netns/x"}},
				Link:   ifdriver.Link{Result: reported},
			})
			if len(res.IPs) != 1 || res.IPs[0].Interface == nil || res.Interfaces[*res.IPs[0].Interface].Name != "net1" {
				t.Errorf("the result is %+v", res)
			}
		})
	}
}

func TestResult_RequestedDefaultRoute_ListedOnce(t *testing.T) {
	everything, gateway := netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("192.0.2.1")
	addrs := []ifdriver.ResultAddr{{Addr: netip.MustParsePrefix("192.0.2.5/24"), Interface: -1}}
	for name, reported := range map[string]*ifdriver.Result{
		"made by Alioth":   {Addrs: addrs},
		"made by a plugin": {Addrs: addrs, Routes: []ifdriver.ResultRoute{{Dst: everything, Gateway: gateway}}},
	} {
		rec := journal.Record{Interface: journal.Interface{Config: netif.Config{Routes: []netif.Route{{Dst: everything, Gateway: gateway}}}}}
		rec.IfName, rec.NetnsPath = "net1", "/run/netns/x"
		res := &types100.Result{}
		merge(res, attachment.Attached{Record: rec, Link: ifdriver.Link{Result: reported}})
		if len(res.Routes) != 1 || res.Routes[0].GW.String() != gateway.String() {
			t.Errorf("%s: the routes are %v", name, res.Routes)
		}
	}
}

// The network of a static type of DANM has routes of both families. An interface has the routes of
// the families that it has an address of. A pod that is the gateway has none.
func TestResult_UnsupportedNetworkRoutes_Omitted(t *testing.T) {
	route := func(dst, gateway string, table int) netif.Route {
		return netif.Route{Dst: netip.MustParsePrefix(dst), Gateway: netip.MustParseAddr(gateway), Table: table}
	}
	rec := journal.Record{Interface: journal.Interface{Config: netif.Config{Routes: []netif.Route{
		route(
			"198.51.100.0/24",
			"192.0.2.1",
			0,
		), route("203.0.113.0/24", "192.0.2.5", 0), route("2001:db8:1::/64", "2001:db8::1", 0), route("10.9.0.0/16", "192.0.2.1", 78),
	}}}}
	rec.IfName, rec.NetnsPath = "net1", "/run/netns/x"
	res := &types100.Result{}
	merge(res, attachment.Attached{Record: rec, Link: ifdriver.Link{Result: &ifdriver.Result{
		Addrs: []ifdriver.ResultAddr{{Addr: netip.MustParsePrefix("192.0.2.5/24"), Interface: -1}},
	}}})
	if len(res.Routes) != 1 || res.Routes[0].Dst.String() != "198.51.100.0/24" {
		t.Errorf("the routes are %v", res.Routes)
	}
}
