// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/internal/kindtest"
)

func TestConvertNode_Addresses_InternalInOrderOthersApart(t *testing.T) {
	got, err := convertNode(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelTopologyZone: "zone-a"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeOutOfService}, {Key: "ToBeDeletedByClusterAutoscaler"}}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: "node-1"},
				{Type: corev1.NodeExternalIP, Address: "198.51.100.1"},
				{Type: corev1.NodeInternalIP, Address: "fd00::1"},
				{Type: corev1.NodeInternalIP, Address: "192.0.2.1"},
				// None of these is an address of one host.
				{Type: corev1.NodeInternalIP, Address: "0.0.0.0"},
				{Type: corev1.NodeInternalIP, Address: "fe80::1%eth0"},
				{Type: corev1.NodeInternalIP, Address: "127.0.0.1"},
				{Type: corev1.NodeExternalIP, Address: "255.255.255.255"},
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{
				corev1.ResourcePods: resource.MustParse("250"), corev1.ResourceCPU: resource.MustParse("2"), "kubernetes.io/x": resource.MustParse("1"),
				"vendor.example/b": resource.MustParse("8"), "vendor.example/a": resource.MustParse("1"), "vendor.example/none": resource.MustParse("0"),
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &store.Node{
		Name: "node-1", OutOfService: true, Leaving: true, Ready: true, Pods: 250, Zone: "zone-a",
		Addresses:    kindtest.Addrs("fd00::1", "192.0.2.1"),
		AllAddresses: kindtest.Addrs("198.51.100.1", "fd00::1", "192.0.2.1"),
		Selection:    got.Selection,
		Pools:        []string{"vendor.example/a", "vendor.example/b"},
	}
	if diff := cmp.Diff(want, got, kindtest.EqualRows); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

// TestConvertNode_ManyAddresses_Bounded: a kubelet that reports any number would fill a table
// that the nodes of the cluster share, and no node could be programmed any more.
func TestConvertNode_ManyAddresses_Bounded(t *testing.T) {
	node, first := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, netip.MustParseAddr("10.0.0.1")
	for ip := first; len(node.Status.Addresses) < 20_000; ip = ip.Next() {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip.String()})
	}
	row, err := convertNode(node)
	if err != nil {
		t.Fatal(err)
	}
	if len(row.Addresses) != mostAddresses || len(row.AllAddresses) != mostAddresses || row.Addresses[0] != first {
		t.Errorf(
			"%d addresses, %d of them internal, begin with %s: want %d from %s on",
			len(row.AllAddresses),
			len(row.Addresses),
			row.Addresses[0],
			mostAddresses,
			first,
		)
	}
	if row.IgnoredAddresses != 20_000-mostAddresses {
		t.Errorf("%d addresses are ignored", row.IgnoredAddresses)
	}
}

func TestNodeSelection_LabelsOrTaintsChange_Changes(t *testing.T) {
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
