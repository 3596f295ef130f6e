// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// services returns the services in the datapath of a node.
func (m *machine) services() ([]state.Service, error) {
	reader, err := datapath.OpenReader(m.cfg.BPFDir)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	found, err := reader.Snapshot()
	return found.Services, err
}

func TestSharedService_NamedByObject_SharedUntilUnnamed(t *testing.T) {
	n := newAPINode(t, "shares")
	n.start(t)
	port, name, protocol, ready := int32(1091), "push", corev1.ProtocolTCP, true
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "push"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: name, Port: 9091}}},
	}
	shared := &v1alpha1.SharedService{
		ObjectMeta: metav1.ObjectMeta{Name: "push"}, Spec: v1alpha1.SharedServiceSpec{Namespace: "default", Name: "push"},
	}
	n.create(t, shared) // before there is such a Service
	n.create(t, service)
	n.create(t, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "push", Labels: map[string]string{discoveryv1.LabelServiceName: "push"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.20"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	})
	vip := netip.MustParseAddr(service.Spec.ClusterIP)
	want := state.Backend{IP: netip.MustParseAddr("10.244.0.20"), Port: 1091}
	serves := func() error {
		list, err := n.services()
		at := slices.IndexFunc(list, func(s state.Service) bool { return s.VIP == vip && s.Port == 9091 && s.Proto == unix.IPPROTO_TCP })
		if err != nil || at < 0 || !slices.Equal(list[at].Backends, []state.Backend{want}) {
			return fmt.Errorf("no service %s with backend %v in %+v, %w", vip, want, list, err)
		}
		return nil
	}
	eventually(t, "the Service is served", serves)
	n.stop(unix.SIGKILL)
	n.start(t)
	if err := serves(); err != nil {
		t.Errorf("after the daemon started anew: %v", err)
	}
	if err := n.api.Delete(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Service is no longer served", func() error {
		if serves() == nil {
			return errors.New("it still is")
		}
		return nil
	})
}
