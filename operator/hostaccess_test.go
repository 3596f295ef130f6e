// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func TestAdmissionGrants_HostAccess_FollowObjects(t *testing.T) {
	r := newRig(t)
	// One of an object that was deleted while no operator ran.
	grants := hostGrants(map[string]v1alpha1.HostGrant{"gone": {HostNetwork: true}})
	r.create(grants)
	r.operate(testConfig())
	says := func(want map[string]v1alpha1.HostGrant) {
		t.Helper()
		sees(r, grants, func(g *v1alpha1.AdmissionGrants) error {
			if !equality.Semantic.DeepEqual(g.HostAccess, want) {
				return fmt.Errorf("admission is told %v, want %v", g.HostAccess, want)
			}
			return nil
		})
	}
	says(nil)
	sees(r, &v1alpha1.AdmissionGrants{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExternalIPGrants}}, func(*v1alpha1.AdmissionGrants) error {
		return nil // it is there, although nothing is granted
	})
	ports := newHostAccess("ports", v1alpha1.HostAccessSpec{AllowedTenants: []string{"blue", "red"}, HostPorts: []string{"8000-8099/TCP", "53"}})
	network := newHostAccess("network", v1alpha1.HostAccessSpec{AllowedTenants: []string{"blue"}, HostPorts: []string{"53/UDP"}, HostNetwork: true})
	all := newHostAccess("all", v1alpha1.HostAccessSpec{AllowedTenants: []string{"*"}, HostPorts: []string{"9/SCTP"}})
	r.create(ports, network, all, newHostAccess("nobody", v1alpha1.HostAccessSpec{HostNetwork: true}))
	udp53 := v1alpha1.HostPortRange{Protocol: "UDP", First: 53, Last: 53}
	two := []v1alpha1.HostPortRange{
		{Protocol: "SCTP", First: 53, Last: 53}, {Protocol: "TCP", First: 53, Last: 53}, {Protocol: "TCP", First: 8000, Last: 8099}, udp53,
	}
	red := v1alpha1.HostGrant{Ports: two}
	ofAll := v1alpha1.HostGrant{Ports: []v1alpha1.HostPortRange{{Protocol: "SCTP", First: 9, Last: 9}}}
	says(map[string]v1alpha1.HostGrant{"blue": {HostNetwork: true, Ports: two}, "red": red, "*": ofAll})
	for _, object := range []*v1alpha1.HostAccess{ports, network, all} {
		sees(r, object, hostAccessReady())
	}
	change(r, network, func(a *v1alpha1.HostAccess) { a.Spec.HostNetwork = false })
	sees(r, network, hostAccessReady())
	says(map[string]v1alpha1.HostGrant{"blue": {Ports: two}, "red": red, "*": ofAll})
	r.delete(ports)
	r.delete(all)
	says(map[string]v1alpha1.HostGrant{"blue": {Ports: []v1alpha1.HostPortRange{udp53}}})
}

func hostGrants(granted map[string]v1alpha1.HostGrant) *v1alpha1.AdmissionGrants {
	return &v1alpha1.AdmissionGrants{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HostAccessGrants}, HostAccess: granted}
}

func newHostAccess(name string, spec v1alpha1.HostAccessSpec) *v1alpha1.HostAccess {
	return &v1alpha1.HostAccess{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

// hostAccessReady reports that the parameters of admission include the present object.
func hostAccessReady() func(*v1alpha1.HostAccess) error {
	return func(a *v1alpha1.HostAccess) error {
		if a.Status.ObservedGeneration != a.Generation {
			return fmt.Errorf("its status is of generation %d, it of %d", a.Status.ObservedGeneration, a.Generation)
		}
		return ready(a.Status.Conditions, v1alpha1.ReadyReason)
	}
}
