// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// rename gives a ScaledEndpoint the name that its spec asks for.
func rename(s *v1alpha1.ScaledEndpoint) { s.Name = v1alpha1.ScaledEndpointName(&s.Spec) }

func scaledEndpoint() *v1alpha1.ScaledEndpoint {
	s := &v1alpha1.ScaledEndpoint{Spec: v1alpha1.ScaledEndpointSpec{
		Service: v1alpha1.ScaledService{Namespace: "shop", Name: "web", UID: "u"}, VPC: "blue", VPCUID: "b", Exposed: true,
		Head: &v1alpha1.ScaledHead{
			Created: metav1.Now(), Tenant: "t", ClusterIPs: []string{"10.96.0.1", "fd96::1"},
			Ports: []v1alpha1.ScaledPort{{Protocol: "TCP", Port: 80, NodePort: 30080}},
			InVPC: &v1alpha1.ScaledVPC{VNI: 20, CIDRs: []string{"10.10.0.0/16"}},
		},
		Groups: []v1alpha1.ScaledGroup{{
			Targets:  []v1alpha1.ScaledTarget{{Protocol: "TCP", Port: 80, Target: 8080}},
			Backends: []v1alpha1.ScaledBackend{{IP: "10.10.1.1", Node: "n", PodUID: "p"}},
		}},
	}}
	rename(s)
	return s
}

// withoutHead is a later part.
func withoutHead(s *v1alpha1.ScaledEndpoint) {
	s.Spec.Head, s.Spec.Part = nil, 1
	rename(s)
}

func TestScaledEndpoint_WrongValue_Refused(t *testing.T) {
	spec := func(change func(*v1alpha1.ScaledEndpointSpec)) func(*v1alpha1.ScaledEndpoint) {
		return func(s *v1alpha1.ScaledEndpoint) { change(&s.Spec); rename(s) }
	}
	backends := func(n int) func(*v1alpha1.ScaledEndpoint) {
		return spec(func(s *v1alpha1.ScaledEndpointSpec) {
			s.Groups[0].Backends = nil
			for i := range n {
				s.Groups[0].Backends = append(s.Groups[0].Backends, v1alpha1.ScaledBackend{IP: fmt.Sprintf("10.10.%d.%d", i/256, i%256)})
			}
		})
	}
	checkCreations(t, scaledEndpoint, []creation[*v1alpha1.ScaledEndpoint]{
		{"as it is", nil, ""},
		{"another name", func(s *v1alpha1.ScaledEndpoint) { s.Name = "web" }, "metadata.name must be"},
		{"the name of a Service in another namespace", func(s *v1alpha1.ScaledEndpoint) { s.Name = "x" + s.Name }, "metadata.name must be"},
		{"a later part", withoutHead, ""},
		{"a first part without a head", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Head = nil }), "part 0 has spec.head"},
		{"a later part with a head", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Part = 1 }), "part 0 has spec.head"},
		{"part 64", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Head, s.Part = nil, v1alpha1.MaxScaledParts }), "spec.part"},
		{"of no VPC, for every node", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.VPC, s.VPCUID = "", "" }), ""},
		{
			"of no VPC, for no node",
			spec(func(s *v1alpha1.ScaledEndpointSpec) { s.VPC, s.VPCUID, s.Exposed = "", "", false }),
			"without spec.vpc only exposed is of use",
		},
		{"of no Service", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Service.UID = "" }), "spec.service.uid"},
		{"as many backends as fit", backends(v1alpha1.MaxScaledBackends), ""},
		{"one more", backends(v1alpha1.MaxScaledBackends + 1), "must have at most 256 items"},
		{"a backend without an address", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Groups[0].Backends[0].IP = "" }), "spec.groups[0].backends[0].ip"},
		{"a port that is none", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Head.Ports[0].Port = 0 }), "spec.head.ports[0].port"},
		{"another protocol", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Head.Ports[0].Protocol = "ICMP" }), "Unsupported value"},
		{"a target beyond all ports", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Groups[0].Targets[0].Target = 65536 }), "spec.groups[0].targets[0].target"},
		{"three ClusterIPs", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Head.ClusterIPs = append(s.Head.ClusterIPs, "10.96.0.2") }), "must have at most 2 items"},
		{"a VPC without a VNI", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Head.InVPC.VNI = 0 }), "spec.head.inVPC.vni"},
		{"a VNI of 25 bits", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Head.InVPC.VNI = 1 << 24 }), "spec.head.inVPC.vni"},
		{"a VPC without ranges", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Head.InVPC.CIDRs = nil }), "spec.head.inVPC.cidrs"},
		{"a tenant that is too long", spec(func(s *v1alpha1.ScaledEndpointSpec) { s.Head.Tenant = strings.Repeat("t", 254) }), "spec.head.tenant"},
	})
	const fixed = "only spec.head and spec.groups can change"
	checkUpdates(t, scaledEndpoint, []update[*v1alpha1.ScaledEndpoint]{
		{name: "other backends", mutate: func(s *v1alpha1.ScaledEndpoint) { s.Spec.Groups = nil }, want: ""},
		{name: "another head", mutate: func(s *v1alpha1.ScaledEndpoint) { s.Spec.Head.NodeLocal = true }, want: ""},
		{name: "another life of the Service", mutate: func(s *v1alpha1.ScaledEndpoint) { s.Spec.Service.UID = "v" }, want: fixed},
		{name: "another VPC", mutate: func(s *v1alpha1.ScaledEndpoint) { s.Spec.VPC = "red" }, want: fixed},
		{name: "no VPC", mutate: func(s *v1alpha1.ScaledEndpoint) { s.Spec.VPC = "" }, want: fixed},
		{name: "another life of the VPC", mutate: func(s *v1alpha1.ScaledEndpoint) { s.Spec.VPCUID = "c" }, want: fixed},
		{name: "for fewer nodes", mutate: func(s *v1alpha1.ScaledEndpoint) { s.Spec.Exposed = false }, want: fixed},
		{name: "another part", mutate: func(s *v1alpha1.ScaledEndpoint) { s.Spec.Head, s.Spec.Part = nil, 1 }, want: fixed},
	})
}
