// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// TestVPCService_APIObjects_ServedByPods goes from the API to the maps: a tenant makes a Network, a
// Service and a slice that claims addresses outside of the VPC.
func TestVPCService_APIObjects_ServedByPods(t *testing.T) {
	const vni, tenant, web = 91, "ns:default", "scaled-web" // pods are in namespace default
	n := newAPINode(t, "scaled")
	n.vpc(t, "scaled", vni)
	allow := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"allowedTenants":["`+tenant+`"]}}`))
	if err := n.api.Patch(t.Context(), &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "scaled"}}, allow); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	p := n.pod(t, "scaled-a", "scaled", "10.10.1.10", nil)
	n.decide(t, p)
	if err := n.lab.cni(t, "ADD", p); err != nil {
		t.Fatal(err)
	}
	port, name, protocol, ready := int32(8080), "web", corev1.ProtocolTCP, true
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: web, Labels: map[string]string{arktosv1.NetworkLabel: "shop"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: name, Port: 80}}},
	}
	n.create(t, service)
	n.create(t, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: web, Labels: map[string]string{discoveryv1.LabelServiceName: web}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
		Endpoints: []discoveryv1.Endpoint{
			{
				Addresses:  []string{"10.10.1.10", "10.10.1.66"},
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", UID: types.UID(p.uid)},
				Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			},
		},
	})
	vip := netip.MustParseAddr(service.Spec.ClusterIP)
	served := func(backends ...state.Backend) func() error {
		return func() error {
			list, err := n.services()
			at := slices.IndexFunc(list, func(s state.Service) bool {
				return s.VNI == vni && s.VIP == vip && s.Port == 80 && s.Proto == unix.IPPROTO_TCP
			})
			if err != nil || (at < 0) != (backends == nil) || at >= 0 && !slices.Equal(list[at].Backends, backends) {
				return fmt.Errorf("want service %s with backends %v in %+v, %w", vip, backends, list, err)
			}
			return nil
		}
	}
	network := &arktosv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}, Spec: arktosv1.NetworkSpec{Type: arktosv1.TypeVPC, VPCID: "scaled"},
	}
	n.create(t, network)
	mine := state.Backend{IP: netip.MustParseAddr("10.10.1.10"), Port: 8080}
	eventually(t, "the Service is served by the pod alone", served(mine))
	n.stop(unix.SIGKILL)
	n.start(t)
	if err := served(mine)(); err != nil {
		t.Errorf("after the daemon started anew: %v", err)
	}
	if err := n.api.Delete(t.Context(), network); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Service has no VPC any more", served())
}
