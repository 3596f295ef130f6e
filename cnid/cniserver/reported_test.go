// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver //nolint:testpackage // the merge of results is an inner step

import (
	"net/netip"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attachment"
	"github.com/alioth-net/alioth/cnid/journal"
)

// A runtime counts an address without an interface as one of eth0, so it would be the pod's.
func TestEachReportedAddressIsOfAnInterface(t *testing.T) {
	for name, reported := range map[string]*attach.Result{
		"without interfaces, before CNI 0.3.0": {Addrs: []attach.ResultAddr{{Addr: netip.MustParsePrefix("192.0.2.5/24"), Interface: -1}}},
		"without an index": {
			Interfaces: []attach.ResultInterface{{Name: "br0"}, {Name: "net1", Sandbox: "/run/netns/x"}},
			Addrs:      []attach.ResultAddr{{Addr: netip.MustParsePrefix("192.0.2.5/24"), Interface: -1}},
		},
		"with an index": {
			Interfaces: []attach.ResultInterface{{Name: "br0"}, {Name: "net1", Sandbox: "/run/netns/x"}},
			Addrs:      []attach.ResultAddr{{Addr: netip.MustParsePrefix("192.0.2.5/24"), Interface: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			res := &types100.Result{Interfaces: []*types100.Interface{{Name: "eth0", Sandbox: "/run/netns/x"}}}
			merge(res, attachment.Attached{
				Record: journal.Record{Identity: journal.Identity{Key: journal.Key{ContainerID: "c", IfName: "net1"}, NetnsPath: "/run/netns/x"}},
				Link:   attach.Link{Result: reported},
			})
			if len(res.IPs) != 1 || res.IPs[0].Interface == nil || res.Interfaces[*res.IPs[0].Interface].Name != "net1" {
				t.Errorf("the result is %+v", res)
			}
		})
	}
}
