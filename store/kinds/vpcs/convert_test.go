// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"net/netip"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/internal/kindtest"
)

func objectMeta(name, uid string, version int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: strconv.Itoa(version)}
}

func addressObject(ip, uid string, version int) *v1alpha1.Address {
	return &v1alpha1.Address{
		ObjectMeta: objectMeta("blue."+ip, uid, version),
		Spec:       v1alpha1.AddressSpec{VPC: "blue", Subnet: "net1", IP: ip, Set: []string{ip}},
	}
}

func TestConvertSubnet_Reservations_ReadWithNameAndGateways(t *testing.T) {
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
		Gateways: kindtest.Addrs("10.10.1.1", "fd10::ffff"),
		Reserved: []store.AddrRange{
			{First: netip.MustParseAddr("10.10.1.7"), Last: netip.MustParseAddr("10.10.1.7")},
			{First: netip.MustParseAddr("10.10.1.128"), Last: netip.MustParseAddr("10.10.1.255")},
			{First: netip.MustParseAddr("10.10.1.2"), Last: netip.MustParseAddr("10.10.1.9")},
			{First: netip.MustParseAddr("fd10::10"), Last: netip.MustParseAddr("fd10::1f")},
		},
		Cursors: kindtest.Addrs("10.10.1.3"),
		Reason:  "Overlap", Message: "overlaps",
	}
	if diff := cmp.Diff(want, got, kindtest.EqualRows, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

// TestUsage_OtherOwner_NotUsed: an owner of another kind or name is not the object that was
// counted.
func TestUsage_OtherOwner_NotUsed(t *testing.T) {
	object := &v1alpha1.Usage{
		ObjectMeta: objectMeta("subnet.net1", "u", 3),
		Spec:       v1alpha1.UsageSpec{Kind: v1alpha1.UsageOfSubnet, Name: "net1"},
		Status:     v1alpha1.UsageStatus{Used: 1, Cursors: []string{"10.10.1.3", "not an address"}},
	}
	object.OwnerReferences = []metav1.OwnerReference{
		{Kind: "VPC", Name: "net1", UID: "vpc"}, {Kind: "Subnet", Name: "net1", UID: "owner"}, {Kind: "Subnet", Name: "net2", UID: "other"},
	}
	got, err := convertUsage(object)
	if err != nil {
		t.Fatal(err)
	}
	want := &store.Usage{
		Meta: store.Meta{UID: "u", ResourceVersion: "3"}, Name: "subnet.net1", Kind: "Subnet", Of: "net1", OwnerUID: "owner",
		Cursors: kindtest.Addrs("10.10.1.3"),
	}
	if diff := cmp.Diff(want, got, kindtest.EqualRows); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestConvert_Unreadable_Refused(t *testing.T) {
	subnet := func(change func(*v1alpha1.SubnetSpec)) error {
		in := &v1alpha1.Subnet{Spec: v1alpha1.SubnetSpec{CIDRs: []string{"10.0.0.0/24"}}}
		change(&in.Spec)
		_, err := convertSubnet(in)
		return err
	}
	_, vpcErr := convertVPC(&v1alpha1.VPC{Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.0.0.0"}}})
	set := addressObject("10.0.0.1", "a", 1)
	set.Spec.Set = []string{"x"}
	_, setErr := convertAddress(set)
	for name, err := range map[string]error{
		"VPC range":          vpcErr,
		"address set":        setErr,
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

func TestConvertVPC_SpecAndStatus_VNIAndEgress(t *testing.T) {
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

func TestConvertRollCall_Owner_NodeUIDTaken(t *testing.T) {
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

func TestConvertAddress_NetworkReference_Read(t *testing.T) {
	referred := v1alpha1.NetworkReference{Group: "danm.io", Kind: "DanmNet", Namespace: "shop", Name: "internal", UID: "u1"}
	object := addressObject("10.0.0.1", "u", 1)
	object.Spec.VPC, object.Spec.Subnet, object.Spec.Network = "", "", &referred
	row, err := Address.Convert(object)
	if err != nil {
		t.Fatal(err)
	}
	if row.Network.UID != "u1" || row.Domain() != "u1.net" || row.Place() != "DanmNet shop/internal" || row.VPC != "" {
		t.Errorf("the row is %+v", row)
	}
}
