// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/internal/kindtest"
)

func TestConvertService_NoClusterIP_None(t *testing.T) {
	got, err := convertService(&corev1.Service{Spec: corev1.ServiceSpec{
		ClusterIPs: []string{"None"}, Ports: []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: "UDP"}, {Port: 80}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := &store.Service{Selectorless: true, Ports: []store.ServicePort{{Name: "dns", Protocol: "UDP", Port: 53}, {Protocol: "TCP", Port: 80}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

// With the label, whatever its value, the Service has no address that could serve a client.
func TestConvertService_OtherProxy_NoAddresses(t *testing.T) {
	class := v1alpha1.LoadBalancerClass
	in := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class, LoadBalancerSourceRanges: []string{"192.0.2.0/24"}, Selector: map[string]string{"app": "web"},
			ClusterIPs: []string{"10.96.0.7"}, ExternalIPs: []string{"198.51.100.1"}, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}},
		},
	}
	for value, served := range map[string]bool{"none": true, "": false, "another": false} {
		if value != "none" {
			in.Labels["service.kubernetes.io/service-proxy-name"] = value
		}
		got, err := convertService(in)
		if err != nil {
			t.Fatal(err)
		}
		has := []bool{len(got.ClusterIPs) == 1, len(got.ExternalIPs) == 1, got.LoadBalancer != "", len(got.SourceRanges) == 1, !got.OtherProxy}
		if slices.Contains(has, !served) {
			t.Errorf("label %q: %+v", value, got)
		}
		delete(in.Labels, "service.kubernetes.io/service-proxy-name")
	}
}

func TestConvertService_BackendChoice_Read(t *testing.T) {
	local, cluster, seconds := corev1.ServiceInternalTrafficPolicyLocal, corev1.ServiceInternalTrafficPolicyCluster, int32(90)
	sticky := corev1.ServiceAffinityClientIP
	limited := &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	vips := []netip.Addr{netip.MustParseAddr("10.96.0.7")}
	for name, c := range map[string]struct {
		spec corev1.ServiceSpec
		want store.Service
	}{
		"anywhere":        {corev1.ServiceSpec{InternalTrafficPolicy: &cluster}, store.Service{ClusterIPs: vips}},
		"on the node":     {corev1.ServiceSpec{InternalTrafficPolicy: &local}, store.Service{ClusterIPs: vips, NodeLocal: true}},
		"where it was":    {corev1.ServiceSpec{SessionAffinity: sticky}, store.Service{ClusterIPs: vips, Affinity: 3 * time.Hour}},
		"for a time":      {corev1.ServiceSpec{SessionAffinity: sticky, SessionAffinityConfig: limited}, store.Service{ClusterIPs: vips, Affinity: 90 * time.Second}},
		"at another name": {corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}, store.Service{}},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.ClusterIPs, c.spec.Selector = []string{"10.96.0.7"}, map[string]string{"app": "web"}
			got, err := convertService(&corev1.Service{Spec: c.spec})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConvertService_LoadBalancerFields_Read(t *testing.T) {
	ours, others := v1alpha1.LoadBalancerClass, "example.com/lb"
	spec := func(class *string) corev1.ServiceSpec {
		return corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class, LoadBalancerIP: "10.0.9.1"}
	}
	ranges, nodePorts := spec(&ours), spec(nil)
	ranges.LoadBalancerSourceRanges = []string{" 192.0.2.7/24 ", "anybody"}
	unreadable := spec(&ours)
	unreadable.LoadBalancerSourceRanges = []string{"nobody"}
	nodePorts.ExternalTrafficPolicy, nodePorts.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 30001
	nodePorts.Ports = []corev1.ServicePort{{Port: 80, NodePort: 30080}}
	nodePorts.ExternalIPs = []string{"192.0.2.9"}
	for name, c := range map[string]struct {
		spec        corev1.ServiceSpec
		annotations map[string]string
		want        store.Service
	}{
		"in its VPC": {spec(&ours), nil, store.Service{LoadBalancer: "VPC", AskedIPs: "10.0.9.1"}},
		"outside": {
			spec(&ours),
			map[string]string{v1alpha1.LoadBalancerAnnotation: "External", v1alpha1.ExternalPoolAnnotation: "edge"},
			store.Service{LoadBalancer: "External", AskedIPs: "10.0.9.1", AskedPool: "edge"},
		},
		"something else":      {spec(&ours), map[string]string{v1alpha1.LoadBalancerAnnotation: "Moon"}, store.Service{LoadBalancer: "Moon", AskedIPs: "10.0.9.1"}},
		"asked by annotation": {spec(&ours), map[string]string{v1alpha1.LoadBalancerIPsAnnotation: "10.0.9.2,fd10::2"}, store.Service{LoadBalancer: "VPC", AskedIPs: "10.0.9.2,fd10::2"}},
		"of another class":    {spec(&others), map[string]string{v1alpha1.LoadBalancerAnnotation: "VPC"}, store.Service{}},
		"of another type":     {corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, LoadBalancerClass: &ours}, nil, store.Service{}},
		"for some clients":    {ranges, nil, store.Service{LoadBalancer: "VPC", AskedIPs: "10.0.9.1", SourceRanges: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}},
		"for unreadable ones": {unreadable, nil, store.Service{LoadBalancer: "VPC", AskedIPs: "10.0.9.1", SourceRanges: []netip.Prefix{}}},
		"at ports of the node": {nodePorts, nil, store.Service{
			ExternalNodeLocal: true, HealthCheckNodePort: 30001, ExternalIPs: kindtest.Addrs("192.0.2.9"),
			Ports: []store.ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30080}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Selector = map[string]string{"app": "web"}
			got, err := convertService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}, Spec: c.spec})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, got, kindtest.EqualRows, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConvertSlice_ConditionsUnknown_DefaultsOfAPI(t *testing.T) {
	yes, no := true, false
	node := "node-1"
	conditions := func(ready, serving, terminating *bool) discoveryv1.EndpointConditions {
		return discoveryv1.EndpointConditions{Ready: ready, Serving: serving, Terminating: terminating}
	}
	got, err := convertEndpointSlice(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Ports:      []discoveryv1.EndpointPort{{}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, NodeName: &node, TargetRef: &corev1.ObjectReference{Kind: "Pod", UID: "p"}},
			{Addresses: []string{"web.example"}, Conditions: conditions(&no, nil, &yes), Hints: &discoveryv1.EndpointHints{
				ForZones: []discoveryv1.ForZone{{Name: "zone-a"}, {Name: "zone-b"}}, ForNodes: []discoveryv1.ForNode{{Name: "node-1"}},
			}},
			{Conditions: conditions(&no, &no, &yes), TargetRef: &corev1.ObjectReference{Kind: "VM", UID: "v"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &store.EndpointSlice{
		Service: "web",
		Ports:   []store.ServicePort{{Protocol: "TCP"}},
		Endpoints: []store.Endpoint{
			{Addresses: kindtest.Addrs("10.0.0.1"), Ready: true, Node: "node-1", PodUID: "p"},
			{Terminating: true, ForZones: []string{"zone-a", "zone-b"}, ForNodes: []string{"node-1"}},
			{},
		},
	}
	if diff := cmp.Diff(want, got, kindtest.EqualRows); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestServiceRange_Unreadable_Refused(t *testing.T) {
	if _, err := convertServiceCIDR(&networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"x"}}}); err == nil {
		t.Error("no error")
	}
}
