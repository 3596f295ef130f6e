// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipamapi

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	"github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

var ignoreMeta = cmpopts.IgnoreFields(store.Meta{}, "UID", "ResourceVersion", "Generation", "Created", "Deleting", "Finalizer")

// rowOf converts an object by its descriptor.
func rowOf(t *testing.T, object kube.Object) any {
	t.Helper()
	for _, kind := range OfGroups(Groups) {
		if row, err := kind.Row(object); err == nil {
			return row
		}
	}
	t.Fatalf("no kind has %T", object)
	return nil
}

func TestConvertPodNetwork_BothGroups_ReadAlike(t *testing.T) {
	three := int32(3)
	for _, tt := range []struct {
		name    string
		spec    v1alpha1.PodNetworkSpec
		status  v1alpha1.PodNetworkState
		want    nodeipam.PodNetwork
		invalid string
	}{
		{"a subnet by name", v1alpha1.PodNetworkSpec{NetworkID: "blue", SubnetResourceID: "net1", MaxReservedIPs: &three}, "Ready", nodeipam.PodNetwork{VPC: "blue", Subnet: "net1", MaxReserved: 3, Ready: true}, ""},
		{
			"a subnet by path, in use",
			v1alpha1.PodNetworkSpec{
				NetworkID: "blue", VnetGUID: "red", SubnetResourceID: "/a/B/subnets/net1",
				SubnetAllocationMode: "Single", DeviceType: v1alpha1.DeviceTypeVnetNIC,
			},
			"InUse",
			nodeipam.PodNetwork{VPC: "blue", Subnet: "net1", MaxReserved: 64, Ready: true},
			"",
		},
		{"the older name of the VPC", v1alpha1.PodNetworkSpec{VnetGUID: "blue"}, "SubnetNotDelegated", nodeipam.PodNetwork{VPC: "blue", MaxReserved: 64}, ""},
		{"InfiniBand", v1alpha1.PodNetworkSpec{DeviceType: v1alpha1.DeviceTypeInfiniBandNIC}, "", nodeipam.PodNetwork{MaxReserved: 64}, "deviceType acn.azure.com/infiniband-nic is not served"},
		{"blocks", v1alpha1.PodNetworkSpec{SubnetAllocationMode: "PrefixBlock"}, "", nodeipam.PodNetwork{MaxReserved: 64}, "subnetAllocationMode PrefixBlock is not served"},
		{"a VPC that can't be", v1alpha1.PodNetworkSpec{NetworkID: "blue\x00net", SubnetResourceID: "Net1"}, "", nodeipam.PodNetwork{MaxReserved: 64}, "can't be the name of a VPC"},
		{"a subnet that can't be", v1alpha1.PodNetworkSpec{NetworkID: "blue", SubnetResourceID: "/subnets/Net1"}, "", nodeipam.PodNetwork{VPC: "blue", MaxReserved: 64}, "can't be the name of a subnet"},
	} {
		in := v1alpha1.PodNetwork{ObjectMeta: metav1.ObjectMeta{Name: "pn"}, Spec: tt.spec, Status: v1alpha1.PodNetworkStatus{Status: tt.status}}
		in.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Why", Message: "because"}}
		tt.want.Reason, tt.want.Message = "Why", "because"
		tt.want.SubnetGUID, tt.want.SubnetResourceID = tt.spec.SubnetGUID, tt.spec.SubnetResourceID
		early := acnv1alpha1.PodNetwork(in)
		for group, object := range map[string]kube.Object{v1alpha1.GroupVersion.Group: &in, acnv1alpha1.GroupVersion.Group: &early} {
			row := *rowOf(t, object).(*nodeipam.PodNetwork)
			if tt.invalid == "" && row.Invalid != "" || !strings.Contains(row.Invalid, tt.invalid) {
				t.Errorf("%s: it is invalid: %q, want %q", tt.name, row.Invalid, tt.invalid)
			}
			row.Invalid, tt.want.Ref = "", nodeipam.Ref{Group: group, Name: "pn"}
			if diff := cmp.Diff(tt.want, row, ignoreMeta); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", tt.name, group, diff)
			}
		}
	}
}

func TestConvertInstance_BothGroups_ReadAlike(t *testing.T) {
	nine := netip.MustParseAddr("10.0.0.9")
	for _, tt := range []struct {
		name    string
		spec    v1alpha1.PodNetworkInstanceSpec
		status  v1alpha1.PodNetworkInstanceStatus
		want    nodeipam.Instance
		invalid string
	}{
		{"nothing", v1alpha1.PodNetworkInstanceSpec{}, v1alpha1.PodNetworkInstanceStatus{}, nodeipam.Instance{}, ""},
		{
			"the older form",
			v1alpha1.PodNetworkInstanceSpec{PodNetwork: "a", PodIPReservationSize: 2, DefaultDenyACL: true},
			v1alpha1.PodNetworkInstanceStatus{},
			nodeipam.Instance{Interfaces: []nodeipam.Interface{{PodNetwork: "a", Reserve: 2}}, DefaultDeny: true},
			"",
		},
		{
			"both forms, and a status",
			v1alpha1.PodNetworkInstanceSpec{PodNetwork: "z", PodNetworkConfigs: []v1alpha1.PodNetworkConfig{
				{PodNetwork: "a", PodIPReservationSize: 1, IPConstraint: "10.0.0.9/32"},
				{PodNetwork: "b", IPConstraint: "10.0.0.9"},
			}},
			v1alpha1.PodNetworkInstanceStatus{Status: "Ready", Reservations: []v1alpha1.Reservation{{PodNetwork: "a", NetworkID: "blue", PodIPAddresses: []string{"10.0.0.9", "fd00::1"}}}},
			nodeipam.Instance{
				Interfaces: []nodeipam.Interface{{PodNetwork: "a", Reserve: 1, IP: nine}, {PodNetwork: "b", IP: nine}}, Ready: true,
				Reserved: []nodeipam.Reserved{{PodNetwork: "a", VPC: "blue", IPs: []netip.Addr{nine, netip.MustParseAddr("fd00::1")}}},
			},
			"",
		},
		{
			"values that no schema lets pass",
			v1alpha1.PodNetworkInstanceSpec{PodNetworkConfigs: []v1alpha1.PodNetworkConfig{{PodNetwork: "a", IPConstraint: "fd00::1/32"}}},
			v1alpha1.PodNetworkInstanceStatus{Status: "PodNetworkNotReady"},
			nodeipam.Instance{Interfaces: []nodeipam.Interface{{PodNetwork: "a"}}},
			"is not one IPv4 address",
		},
		{
			"a name that can't be",
			v1alpha1.PodNetworkInstanceSpec{PodNetwork: "a\x00b"},
			v1alpha1.PodNetworkInstanceStatus{},
			nodeipam.Instance{},
			"can't be the name of a PodNetwork",
		},
		{
			"a reservation of nothing",
			v1alpha1.PodNetworkInstanceSpec{},
			v1alpha1.PodNetworkInstanceStatus{Reservations: []v1alpha1.Reservation{{PodNetwork: "a", NetworkID: "blue", PodIPAddresses: []string{"ten"}}}},
			nodeipam.Instance{Reserved: []nodeipam.Reserved{{PodNetwork: "a", VPC: "blue"}}},
			"is no address",
		},
	} {
		in := v1alpha1.PodNetworkInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pni"}, Spec: tt.spec, Status: tt.status}
		early := acnv1alpha1.PodNetworkInstance(in)
		for group, object := range map[string]kube.Object{v1alpha1.GroupVersion.Group: &in, acnv1alpha1.GroupVersion.Group: &early} {
			row := *rowOf(t, object).(*nodeipam.Instance)
			if tt.invalid == "" && row.Invalid != "" || !strings.Contains(row.Invalid, tt.invalid) {
				t.Errorf("%s: it is invalid: %q, want %q", tt.name, row.Invalid, tt.invalid)
			}
			row.Invalid, tt.want.Ref = "", nodeipam.Ref{Group: group, Namespace: "shop", Name: "pni"}
			if diff := cmp.Diff(tt.want, row, ignoreMeta, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", tt.name, group, diff)
			}
		}
	}
}

func TestConvertConfig_Owner_UIDTaken(t *testing.T) {
	for _, tt := range []struct {
		name  string
		owner metav1.OwnerReference
		want  string
	}{
		{"the pod", metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "u", Controller: new(true)}, "u"},
		{"a pod that does not control it", metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "u"}, ""},
		{"something else", metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "web", UID: "u", Controller: new(true)}, ""},
		{"another Pod", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Pod", Name: "web", UID: "u", Controller: new(true)}, ""},
	} {
		meta := metav1.ObjectMeta{Namespace: "shop", Name: "web", OwnerReferences: []metav1.OwnerReference{tt.owner}}
		choice := v1alpha1.PodNetworkChoice{PodNetwork: "a", PodNetworkInstance: "pni"}
		today := &v1alpha1.MultitenantPodNetworkConfig{ObjectMeta: meta, Spec: v1alpha1.MultitenantPodNetworkConfigSpec{PodNetworkChoice: choice, PodUID: "x"}}
		today.Status.Status = v1alpha1.ConfigReady
		early := &acnv1alpha1.MultiTenantPodNetworkConfig{ObjectMeta: meta, Spec: choice}
		early.Status.Status = acnv1alpha1.ConfigProvisioned
		for status, object := range map[string]kube.Object{"Ready": today, "provisioned": early} {
			row := rowOf(t, object).(*nodeipam.PodConfig)
			want := &nodeipam.PodConfig{Ref: row.Ref, PodUID: tt.want, PodNetwork: "a", Instance: "pni", Status: status}
			if diff := cmp.Diff(want, row, ignoreMeta); diff != "" || row.Namespace != "shop" || row.Name != "web" {
				t.Errorf("%s: %s (-want +got):\n%s", tt.name, status, diff)
			}
		}
	}
}

func TestConvertNodeInfo_Devices_ByEthernetAddress(t *testing.T) {
	today := &v1alpha1.NodeInfo{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: v1alpha1.NodeInfoSpec{VMUniqueID: "vm"}}
	today.Status.DeviceInfos = []v1alpha1.DeviceInfo{
		{DeviceType: v1alpha1.DeviceTypeVnetNIC, MacAddress: "00-0D-3A-12-34-56"},
		{MacAddress: "00:0d:3a:12:34:57"},
		{DeviceType: v1alpha1.DeviceTypeInfiniBandNIC, MacAddress: "00:0d:3a:12:34:58"},
		{MacAddress: "00:00:00:00:fe:80:00:00"},
	}
	early := &acnv1alpha1.NodeInfo{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: acnv1alpha1.NodeInfoStatus{VMUniqueID: "vm"}}
	row := rowOf(t, today).(*nodeipam.NodeInfo)
	if !strings.Contains(row.Invalid, "fe:80") {
		t.Errorf("it is invalid: %q", row.Invalid)
	}
	row.Invalid = ""
	want := &nodeipam.NodeInfo{
		Ref: nodeipam.Ref{Group: v1alpha1.GroupVersion.Group, Name: "node-1"}, VMUniqueID: "vm", MACs: []string{"00:0d:3a:12:34:56", "00:0d:3a:12:34:57"},
	}
	if diff := cmp.Diff(want, row, ignoreMeta); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want.Group, want.MACs = acnv1alpha1.GroupVersion.Group, nil
	if diff := cmp.Diff(want, rowOf(t, early).(*nodeipam.NodeInfo), ignoreMeta); diff != "" {
		t.Errorf("early (-want +got):\n%s", diff)
	}
}

func TestKinds_NodeIPAMGroups_Complete(t *testing.T) {
	for _, groups := range [][]string{nil, {"acn.azure.com"}, {"acn.azure.com", "multitenancy.acn.azure.com"}, {"example.com"}} {
		want := 0
		for _, group := range groups {
			if group != "example.com" {
				want += 4
			}
		}
		list := OfGroups(groups)
		if len(list) != want {
			t.Errorf("%q have %d kinds, want %d", groups, len(list), want)
		}
		for _, kind := range list {
			if !kind.Optional || kind.OnNode != nil || len(kind.Of) > 0 {
				t.Errorf("%T: the API must have it, or a node follows it", kind.Object)
			}
		}
	}
}
