// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sharedservice

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

func TestDecide_SharedService_ReadyOrReason(t *testing.T) {
	service := func(change func(*store.Service)) []any {
		row := &store.Service{
			Namespace: "monitoring", Name: "push", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.7.7"), netip.MustParseAddr("fd96::7")},
			Ports: []store.ServicePort{{Protocol: "SCTP", Port: 9}, {Protocol: "TCP", Port: 9091}},
		}
		change(row)
		return []any{row}
	}
	cases := map[string]struct {
		rows            []any
		reason, message string
	}{
		"as it should be":        {service(func(*store.Service) {}), v1alpha1.ReadyReason, "every VPC"},
		"no Service":             {nil, v1alpha1.ServiceNotFoundReason, "Service monitoring/push does not exist"},
		"another's Service":      {service(func(s *store.Service) { s.Namespace = "other" }), v1alpha1.ServiceNotFoundReason, "does not exist"},
		"a Service of a Network": {service(func(s *store.Service) { s.Network = "blue" }), v1alpha1.ServiceOfNetworkReason, "Network blue"},
		"a headless one":         {service(func(s *store.Service) { s.ClusterIPs = nil }), v1alpha1.ServiceNotServedReason, "no ClusterIP"},
		"another proxy's":        {service(func(s *store.Service) { s.OtherProxy, s.ClusterIPs = true, nil }), v1alpha1.ServiceNotServedReason, "service-proxy-name"},
		"one of other protocols": {service(func(s *store.Service) { s.Ports = s.Ports[:1] }), v1alpha1.ServiceNotServedReason, "no port of TCP or UDP"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got decision
			operatortest.New(t, c.rows...).View(func(tx store.ReadTx) { got = decide(tx, "monitoring", "push") })
			ready := c.reason == v1alpha1.ReadyReason
			if got.Reason != c.reason || got.IsReady() != ready || !strings.Contains(got.Message, c.message) {
				t.Errorf("got %+v, want %s: %s", got, c.reason, c.message)
			}
			if ready && !slices.Equal(got.clusterIPs, []string{"10.96.7.7", "fd96::7"}) || !ready && got.clusterIPs != nil {
				t.Errorf("ClusterIPs %v", got.clusterIPs)
			}
		})
	}
}
