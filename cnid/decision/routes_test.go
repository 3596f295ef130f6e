// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attach/netkit"
)

// A pod whose default route leads elsewhere reaches its VPC and Services through the
// VPC's interface.
func TestAnInterfaceWithoutTheDefaultRouteLeadsToItsVPCAndServices(t *testing.T) {
	d := newDecided()
	d.said.NoDefaultRoute = true
	d.more = []annotations.Attachment{physical("net1", "198.51.100.7/24")}
	got := d.decide(t, thePod)
	if got.missing != "" || len(got.decisions) != 2 {
		t.Fatalf("answer %+v", got)
	}
	first := got.decisions[0]
	var routes []string
	for _, route := range first.Routes {
		routes = append(routes, fmt.Sprintf("%s via %s", route.Dst, route.Gateway))
	}
	want := []string{"10.10.0.0/16 via 10.10.1.1", "10.96.0.0/12 via 10.10.1.1", "fd10:10::/48 via fd10:10:0:1::1"}
	if diff := cmp.Diff(want, routes); diff != "" || len(first.Gateways) > 0 {
		t.Errorf("gateways %v (-want +got):\n%s", first.Gateways, diff)
	}
	rec, err := d.rebuild(t, netkit.Kind, attach.Found{IfName: "eth0", PodUID: "p1"})
	if err != nil || len(rec.Gateways) > 0 {
		t.Errorf("the rebuilt record has the gateways %v: %v", rec.Gateways, err)
	}
}

// The configuration of plugins comes through unchanged, and only with a claim.
func TestPluginsGetTheClaimedConfiguration(t *testing.T) {
	const conf = `{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"bridge","x":18446744073709551615}]}`
	d := newDecided()
	one := physical("net1")
	one.Delegate = &annotations.Delegate{Conf: json.RawMessage(conf)}
	d.more = []annotations.Attachment{one}
	got := d.decide(t, thePod)
	if got.missing != "" || len(got.decisions) != 2 || got.decisions[1].Delegate == nil || string(got.decisions[1].Delegate.Conf) != conf {
		t.Fatalf("answer %+v", got)
	}
	d.unclaimed = true
	if got := d.decide(t, thePod); got.missing == "" {
		t.Errorf("decided without a claim: %+v", got)
	}
}
