// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/store/kinds/core"
)

func TestTrim_Node_RowUnchanged(t *testing.T) {
	whole := func() *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}, ProviderID: "x"},
			Status: corev1.NodeStatus{
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
				Conditions: []corev1.NodeCondition{
					{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				},
				Images: []corev1.ContainerImage{{Names: []string{"example.com/big"}}},
			},
		}
	}
	want, err := core.Node.Convert(whole())
	if err != nil {
		t.Fatal(err)
	}
	node := whole()
	if _, err := Trim(node); err != nil {
		t.Fatal(err)
	}
	got, err := core.Node.Convert(node)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" || !want.OutOfService || !want.Ready || len(want.Addresses) != 1 {
		t.Errorf("row (-whole +trimmed):\n%s", diff)
	}
	if len(node.Status.Images) > 0 {
		t.Error("the list of images is left")
	}
}
