// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"maps"
	"net/netip"
	"testing"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/services"
)

// TestSameExposure_EqualRows_SameVPCs compares with the VPCs that a store with one row or
// the other has. The first row is not exposed.
func TestSameExposure_EqualRows_SameVPCs(t *testing.T) {
	row := func(change func(*store.Service)) *store.Service {
		s := &store.Service{
			Meta: store.Meta{UID: "u-web"}, Namespace: "red", Name: "web", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
			Ports: []store.ServicePort{{Port: 80, NodePort: 30080}},
		}
		change(s)
		return s
	}
	rows := map[string]*store.Service{
		"none":           nil,
		"inside":         row(func(s *store.Service) { s.Ports[0].NodePort = 0 }),
		"headless":       row(func(s *store.Service) { s.ClusterIPs = nil }),
		"node port":      row(func(*store.Service) {}),
		"other port":     row(func(s *store.Service) { s.Ports[0].NodePort = 30081 }),
		"load balancer":  row(func(s *store.Service) { s.LoadBalancer = store.LoadBalancerExternal }),
		"other network":  row(func(s *store.Service) { s.Network = "back" }),
		"another tenant": row(func(s *store.Service) { s.Namespace = "blue" }),
	}
	vpcs := map[string]map[string]bool{}
	for name, r := range rows {
		vpcs[name] = exposedVPCs(t, r)
	}
	if len(vpcs["node port"]) != 1 || maps.Equal(vpcs["node port"], vpcs["other network"]) || maps.Equal(vpcs["node port"], vpcs["another tenant"]) ||
		len(vpcs["inside"]) != 0 {
		t.Fatalf("the rows name the VPCs %v, want different ones", vpcs)
	}
	for a, rowA := range rows {
		for b, rowB := range rows {
			if same := services.SameExposure(rowA, rowB); same != maps.Equal(vpcs[a], vpcs[b]) {
				t.Errorf("%s and %s: same exposure is %v, the VPCs are %v and %v", a, b, same, vpcs[a], vpcs[b])
			}
		}
	}
}

// exposedVPCs returns the exposed VPCs of a store with one Service, or without a Service.
func exposedVPCs(t *testing.T, row *store.Service) (vpcs map[string]bool) {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(tx store.Tx) error {
		if row != nil {
			if err := store.PutService(tx, row); err != nil {
				return err
			}
		}
		for _, ns := range []string{"red", "blue"} {
			if err := store.PutNamespace(tx, &store.Namespace{Meta: store.Meta{UID: "u-" + ns}, Name: ns, Tenant: ns}); err != nil {
				return err
			}
			for _, network := range []string{"default", "back"} {
				if err := store.PutNetwork(tx, &store.Network{
					Meta: store.Meta{UID: "u-" + ns + network}, Namespace: ns, Name: network, Tenant: ns, Type: arktosv1.TypeVPC, VPC: ns + "-" + network, Ready: true,
				}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.View(func(tx store.ReadTx) { vpcs = services.ExposedVPCs(tx, "default") })
	return vpcs
}
