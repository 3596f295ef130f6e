// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func TestAdmissionIsToldWhatTenantsHaveOfNodes(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.Namespace = "host-access-system"
	told := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: cfg.Namespace, Name: v1alpha1.HostGrants},
		Data:       map[string]string{"gone": "hostNetwork"}, // of an object that was deleted while nobody looked
	}
	externalIPs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cfg.Namespace, Name: v1alpha1.ExternalIPGrants}}
	r.create(newNamespace(cfg.Namespace, ""), told, externalIPs)
	r.operate(cfg)
	says := func(want map[string]string) {
		t.Helper()
		sees(r, told, func(c *corev1.ConfigMap) error {
			if !maps.Equal(c.Data, want) {
				return fmt.Errorf("admission is told %q, want %q", c.Data, want)
			}
			return nil
		})
	}
	says(nil)
	ports := newHostAccess("ports", v1alpha1.HostAccessSpec{AllowedTenants: []string{"blue", "red"}, HostPorts: []string{"8000-8099/TCP", "53"}})
	network := newHostAccess("network", v1alpha1.HostAccessSpec{AllowedTenants: []string{"blue"}, HostPorts: []string{"53/UDP"}, HostNetwork: true})
	all := newHostAccess("all", v1alpha1.HostAccessSpec{AllowedTenants: []string{"*"}, HostPorts: []string{"9/SCTP"}})
	r.create(ports, network, all, newHostAccess("nobody", v1alpha1.HostAccessSpec{HostNetwork: true}))
	const both = "SCTP 53 53\nTCP 53 53\nTCP 8000 8099\nUDP 53 53"
	says(map[string]string{"blue": both + "\nhostNetwork", "red": both, "_all": "SCTP 9 9"})
	for _, object := range []*v1alpha1.HostAccess{ports, network, all} {
		sees(r, object, hostAccessReady())
	}
	change(r, network, func(a *v1alpha1.HostAccess) { a.Spec.HostNetwork = false })
	sees(r, network, hostAccessReady())
	says(map[string]string{"blue": both, "red": both, "_all": "SCTP 9 9"})
	r.delete(ports)
	r.delete(all)
	says(map[string]string{"blue": "UDP 53 53"})
}

func newHostAccess(name string, spec v1alpha1.HostAccessSpec) *v1alpha1.HostAccess {
	return &v1alpha1.HostAccess{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

// hostAccessReady says that admission has been told of what the object is now.
func hostAccessReady() func(*v1alpha1.HostAccess) error {
	return func(a *v1alpha1.HostAccess) error {
		if a.Status.ObservedGeneration != a.Generation {
			return fmt.Errorf("its status is of generation %d, it of %d", a.Status.ObservedGeneration, a.Generation)
		}
		return ready(a.Status.Conditions, v1alpha1.ReadyReason)
	}
}
