// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"net/netip"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// equalRows compares by value; netip types have unexported fields.
var equalRows = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func objectMeta(name, uid string, version int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: strconv.Itoa(version)}
}

func addressObject(ip, uid string, version int) *v1alpha1.Address {
	return &v1alpha1.Address{
		ObjectMeta: objectMeta("blue."+ip, uid, version),
		Spec:       v1alpha1.AddressSpec{VPC: "blue", Subnet: "net1", IP: ip, Set: []string{ip}},
	}
}

func TestSubnetFillsInNameAndGatewaysAndReadsEveryFormOfReservation(t *testing.T) {
	got, err := convertSubnet(&v1alpha1.Subnet{
		ObjectMeta: objectMeta("customer-a-net1", "u", 3),
		Spec: v1alpha1.SubnetSpec{
			VPC:      "blue",
			CIDRs:    []string{"10.10.1.0/24", "fd10::/64"},
			Gateway:  []string{"fd10::ffff"},
			Reserved: []string{"10.10.1.7", "10.10.1.128/25", "10.10.1.9-10.10.1.2", "fd10::10-fd10::1f"},
		},
		Status: v1alpha1.SubnetStatus{
			Cursors:    []string{"10.10.1.3", "not an address"},
			Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Overlap", Message: "overlaps"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &store.Subnet{
		Meta: store.Meta{UID: "u", ResourceVersion: "3"},
		Name: "customer-a-net1", VPC: "blue", ShortName: "customer-a-net1",
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.10.1.0/24"), netip.MustParsePrefix("fd10::/64")},
		Gateways: addrs("10.10.1.1", "fd10::ffff"),
		Reserved: []store.AddrRange{
			{First: netip.MustParseAddr("10.10.1.7"), Last: netip.MustParseAddr("10.10.1.7")},
			{First: netip.MustParseAddr("10.10.1.128"), Last: netip.MustParseAddr("10.10.1.255")},
			{First: netip.MustParseAddr("10.10.1.2"), Last: netip.MustParseAddr("10.10.1.9")},
			{First: netip.MustParseAddr("fd10::10"), Last: netip.MustParseAddr("fd10::1f")},
		},
		Cursors: addrs("10.10.1.3"),
		Reason:  "Overlap", Message: "overlaps",
	}
	if diff := cmp.Diff(want, got, equalRows, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestConversionsRefuseWhatTheyCannotRead(t *testing.T) {
	subnet := func(change func(*v1alpha1.SubnetSpec)) error {
		in := &v1alpha1.Subnet{Spec: v1alpha1.SubnetSpec{CIDRs: []string{"10.0.0.0/24"}}}
		change(&in.Spec)
		_, err := convertSubnet(in)
		return err
	}
	_, vpcErr := convertVPC(&v1alpha1.VPC{Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.0.0.0"}}})
	set := addressObject("10.0.0.1", "a", 1)
	set.Spec.Set = []string{"x"}
	_, cidrErr := convertServiceCIDR(&networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"x"}}})
	_, setErr := convertAddress(set)
	for name, err := range map[string]error{
		"VPC range":          vpcErr,
		"address set":        setErr,
		"service range":      cidrErr,
		"subnet range":       subnet(func(s *v1alpha1.SubnetSpec) { s.CIDRs = []string{"x"} }),
		"gateway":            subnet(func(s *v1alpha1.SubnetSpec) { s.Gateway = []string{"x"} }),
		"reserved text":      subnet(func(s *v1alpha1.SubnetSpec) { s.Reserved = []string{"a-b"} }),
		"reserved open end":  subnet(func(s *v1alpha1.SubnetSpec) { s.Reserved = []string{"10.0.0.1-"} }),
		"reserved two kinds": subnet(func(s *v1alpha1.SubnetSpec) { s.Reserved = []string{"10.0.0.1-fd00::1"} }),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestVPCTakesVNIAndEgressFromSpecAndStatus(t *testing.T) {
	want := int32(9)
	got, err := convertVPC(&v1alpha1.VPC{
		ObjectMeta: metav1.ObjectMeta{Name: "blue", Finalizers: []string{v1alpha1.Finalizer}, Generation: 4},
		Spec: v1alpha1.VPCSpec{
			CIDRs: []string{"10.0.0.0/8"}, AllowedTenants: []string{"*"}, Egress: v1alpha1.EgressMasquerade, VNI: &want,
			EgressAllow: []string{"203.0.113.0/24"}, EgressDeny: []string{"2001:db8::/32"},
		},
		Status: v1alpha1.VPCStatus{VNI: 9, Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantRow := &store.VPC{
		Meta: store.Meta{Generation: 4, Finalizer: true}, Name: "blue",
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, AllowedTenants: []string{"*"},
		EgressAllow: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, EgressDeny: []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")},
		EgressMasquerade: true, WantVNI: 9, VNI: 9, Ready: true, Reason: "Ready",
	}
	if diff := cmp.Diff(wantRow, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestNodeListsInternalAddressesInOrderAndAllOthersApart(t *testing.T) {
	got, err := convertNode(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelTopologyZone: "zone-a"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeOutOfService}, {Key: "ToBeDeletedByClusterAutoscaler"}}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: "node-1"},
				{Type: corev1.NodeExternalIP, Address: "198.51.100.1"},
				{Type: corev1.NodeInternalIP, Address: "fd00::1"},
				{Type: corev1.NodeInternalIP, Address: "192.0.2.1"},
			},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("250")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &store.Node{
		Name: "node-1", OutOfService: true, Leaving: true, Ready: true, Pods: 250, Zone: "zone-a",
		Addresses:    addrs("fd00::1", "192.0.2.1"),
		AllAddresses: addrs("198.51.100.1", "fd00::1", "192.0.2.1"),
		Selection:    got.Selection,
	}
	if diff := cmp.Diff(want, got, equalRows); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestTheSelectionOfANodeChangesWithItsLabelsAndTaints(t *testing.T) {
	selection := func(change func(*corev1.Node)) uint64 {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"rack": "1", "zone": "a"}},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}},
		}
		change(node)
		row, err := convertNode(node)
		if err != nil {
			t.Fatal(err)
		}
		return row.Selection
	}
	same := selection(func(*corev1.Node) {})
	for name, change := range map[string]func(*corev1.Node){
		"a label":            func(n *corev1.Node) { n.Labels["rack"] = "2" },
		"a label that moves": func(n *corev1.Node) { n.Labels = map[string]string{"rack": "1z", "one": "a"} },
		"no label":           func(n *corev1.Node) { delete(n.Labels, "zone") },
		"a taint's value":    func(n *corev1.Node) { n.Spec.Taints[0].Value = "w" },
		"a taint's effect":   func(n *corev1.Node) { n.Spec.Taints[0].Effect = corev1.TaintEffectNoExecute },
	} {
		if selection(change) == same {
			t.Errorf("%s: the selection is the same", name)
		}
	}
	if selection(func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}} }) != same {
		t.Error("the selection changes with a node's status")
	}
}

func TestARollCallKnowsWhichNodeObjectItIsOf(t *testing.T) {
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   string
	}{
		"nobody's":     {},
		"a node's":     {[]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "n1"}}, "n1"},
		"a stranger's": {[]metav1.OwnerReference{{APIVersion: "x/v1", Kind: "Node", Name: "node-1", UID: "n1"}}, ""},
	} {
		got, err := convertRollCall(&v1alpha1.RollCall{
			ObjectMeta: metav1.ObjectMeta{Name: "node.node-1", OwnerReferences: tc.owners},
			Spec:       v1alpha1.RollCallSpec{Call: "c", VNIs: []int32{3, 7}},
		})
		want := &store.RollCall{Name: "node.node-1", Call: "c", VNIs: []uint32{3, 7}, NodeUID: tc.want}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, row (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestPodFindsProbesAndHooksThatCrossTheNetwork(t *testing.T) {
	onPort := func(port intstr.IntOrString) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: port}}
	}
	probe := func(handler corev1.ProbeHandler) *corev1.Probe { return &corev1.Probe{ProbeHandler: handler} }
	named := corev1.Container{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}
	tests := map[string]struct {
		init, regular func(*corev1.Container)
		wantProbes    bool
		wantHooks     bool
		wantHost      string
	}{
		"nothing": {},
		"exec probe": {regular: func(c *corev1.Container) {
			c.LivenessProbe = probe(corev1.ProbeHandler{Exec: &corev1.ExecAction{}})
		}},
		"HTTP liveness probe": {wantProbes: true, regular: func(c *corev1.Container) {
			c.LivenessProbe = probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{}})
		}},
		"TCP readiness probe": {wantProbes: true, regular: func(c *corev1.Container) {
			c.ReadinessProbe = probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}})
		}},
		"gRPC startup probe of a sidecar": {wantProbes: true, init: func(c *corev1.Container) {
			c.StartupProbe = probe(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}})
		}},
		"exec hook": {regular: func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}}
		}},
		"hooks by name, number and number as text": {
			wantProbes: true, wantHooks: true,
			init: func(c *corev1.Container) {
				c.Lifecycle = &corev1.Lifecycle{PreStop: onPort(intstr.FromString("443"))}
			},
			regular: func(c *corev1.Container) {
				c.Lifecycle = &corev1.Lifecycle{
					PostStart: onPort(intstr.FromString("http")),
					PreStop:   &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}},
				}
			},
		},
		"probes and hooks that name a host": {wantHost: "192.0.2.9", regular: func(c *corev1.Container) {
			c.LivenessProbe = probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "192.0.2.9"}})
			c.ReadinessProbe = probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "host.example"}})
			c.Lifecycle = &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "192.0.2.9", Port: intstr.FromInt32(443)}},
				PreStop:   &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Host: "host.example", Port: intstr.FromInt32(444)}},
			}
		}},
		"a hook that names a host beside one that doesn't": {
			wantProbes: true, wantHooks: true, wantHost: "192.0.2.9",
			regular: func(c *corev1.Container) {
				c.Lifecycle = &corev1.Lifecycle{
					PostStart: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "192.0.2.9", Port: intstr.FromInt32(443)}},
					PreStop:   onPort(intstr.FromInt32(80)),
				}
			},
		},
		"hook on a port that isn't declared": {wantProbes: true, wantHooks: true, regular: func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: onPort(intstr.FromString("admin"))}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			init, regular := *named.DeepCopy(), *named.DeepCopy()
			if test.init != nil {
				test.init(&init)
			}
			if test.regular != nil {
				test.regular(&regular)
			}
			row, err := convertPod(&corev1.Pod{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{init}, Containers: []corev1.Container{regular},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if row.NetworkProbes != test.wantProbes {
				t.Errorf("NetworkProbes is %v, want %v", row.NetworkProbes, test.wantProbes)
			}
			if row.NetworkHooks != test.wantHooks || row.ProbeHost != test.wantHost {
				t.Errorf("NetworkHooks is %v, ProbeHost %q; want %v, %q", row.NetworkHooks, row.ProbeHost, test.wantHooks, test.wantHost)
			}
		})
	}
}

func TestPodTakesHostPortsOfContainersThatLast(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	row, err := convertPod(&corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Ports: []corev1.ContainerPort{{HostPort: 70, ContainerPort: 1}}},
			{RestartPolicy: &always, Ports: []corev1.ContainerPort{{HostPort: 71, ContainerPort: 2, Protocol: corev1.ProtocolUDP}}},
		},
		Containers: []corev1.Container{
			{Ports: []corev1.ContainerPort{{ContainerPort: 3}, {HostPort: 73, ContainerPort: 3, HostIP: "192.0.2.1"}}},
			{Ports: []corev1.ContainerPort{
				{HostPort: 74, ContainerPort: 4, HostIP: "0.0.0.0", Protocol: corev1.ProtocolSCTP},
				{HostPort: 74, ContainerPort: 4, HostIP: "::", Protocol: corev1.ProtocolSCTP},
				{HostPort: 75, ContainerPort: 5, HostIP: "nonsense"},
			}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []store.HostPort{
		{Protocol: "UDP", HostPort: 71, Port: 2},
		{Protocol: "TCP", HostIP: netip.MustParseAddr("192.0.2.1"), HostPort: 73, Port: 3},
		{Protocol: "SCTP", HostPort: 74, Port: 4},
	}
	if diff := cmp.Diff(want, row.HostPorts, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPodTakesLabelsAnnotationsOwnerAndCondition(t *testing.T) {
	isController := true
	in := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "u",
			Labels: map[string]string{arktosv1.NetworkLabel: "vpc-1"},
			Annotations: map[string]string{
				arktosv1.NICAnnotation: "{}", v1alpha1.AttachmentsAnnotation: "[]", arktosv1.ReadinessAnnotation: "true",
			},
			OwnerReferences: []metav1.OwnerReference{{UID: "other"}, {UID: "owner", Controller: &isController}},
		},
		Spec: corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodFailed,
			Conditions: []corev1.PodCondition{{Type: v1alpha1.NetworkReadyCondition, Reason: "IPInUse", Message: "taken"}},
		},
	}
	got, err := convertPod(in)
	if err != nil {
		t.Fatal(err)
	}
	want := &store.Pod{
		Meta: store.Meta{UID: "u"}, Namespace: "shop", Name: "web", OwnerUID: "owner", Node: "node-1",
		Network: "vpc-1", Labels: in.Labels, NIC: "{}", Attachments: "[]", NetworkReady: true, Terminal: true,
		Reason: "IPInUse", Message: "taken",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestTheDevicesOfAPodAreThoseOfItsLastingContainers(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := func(name corev1.ResourceName, n string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{name: resource.MustParse(n)}}}
	}
	sidecar := container("vendor.example/fast", "1")
	sidecar.RestartPolicy = &always
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{container("vendor.example/fast", "8"), sidecar},
		Containers: []corev1.Container{
			container("vendor.example/fast", "2"), container("vendor.example/gpu", "1"), container("cpu", "4"),
			container("hugepages-2Mi", "4Mi"), container("kubernetes.io/batch", "1"),
		},
	}}
	row, err := convertPod(pod)
	if diff := cmp.Diff(map[string]int{"vendor.example/fast": 3, "vendor.example/gpu": 1}, row.Devices); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
