// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rollcall

import (
	"errors"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/store"
)

// rows are what the store has heard.
type rows struct {
	Addresses []store.Address
	Pods      []store.Pod
}

func (r rows) fill(tx store.Tx) error {
	var failures []error
	for _, row := range r.Addresses {
		failures = append(failures, store.PutAddress(tx, &row))
	}
	for _, row := range r.Pods {
		failures = append(failures, store.PutPod(tx, &row))
	}
	return errors.Join(failures...)
}

func TestTheStoreAgreesOnceItHasHeardWhatDecidesAboutTheNode(t *testing.T) {
	records := []journal.Record{{
		Identity: journal.Identity{Pod: journal.Pod{Namespace: "ns", Name: "p1", UID: "p1"}}, Binding: journal.Binding{VPC: "blue"},
		Interface: journal.Interface{Addrs: []netip.Prefix{netip.MustParsePrefix("10.10.1.10/24")}},
	}}
	ip := netip.MustParseAddr("10.10.1.10")
	row := store.Address{
		Meta: store.Meta{UID: "address", ResourceVersion: "1"}, Name: v1alpha1.AddressName("blue", ip), VPC: "blue", Subnet: "blue1", IP: ip, Node: "node1",
		MAC: "02:00:00:00:00:01", Holder: store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "p1", UID: "p1"}, Set: []netip.Addr{ip},
	}
	object := v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: row.Name, UID: types.UID(row.UID)}}
	another, foreign := object, row
	another.UID, foreign.Node = "another", "node2"
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p1", UID: "p1"}}
	told := pod
	told.Annotations = map[string]string{v1alpha1.AttachmentsAnnotation: "[]"}
	known := store.Pod{Meta: store.Meta{UID: "p1", ResourceVersion: "1"}, Namespace: "ns", Name: "p1", Node: "node1"}
	for name, c := range map[string]struct {
		rows      rows
		addresses []v1alpha1.Address
		pods      []corev1.Pod
		want      bool
	}{
		"it has heard everything":            {rows{Addresses: []store.Address{row}, Pods: []store.Pod{known}}, []v1alpha1.Address{object}, []corev1.Pod{pod}, true},
		"all is gone":                        {rows{}, nil, nil, true},
		"the Address is gone":                {rows{Addresses: []store.Address{row}, Pods: []store.Pod{known}}, nil, []corev1.Pod{pod}, false},
		"the Address has come":               {rows{Pods: []store.Pod{known}}, []v1alpha1.Address{object}, []corev1.Pod{pod}, false},
		"the Address is another one":         {rows{Addresses: []store.Address{row}, Pods: []store.Pod{known}}, []v1alpha1.Address{another}, []corev1.Pod{pod}, false},
		"the Address is on another node":     {rows{Addresses: []store.Address{foreign}, Pods: []store.Pod{known}}, nil, []corev1.Pod{pod}, true},
		"the pod is gone":                    {rows{Addresses: []store.Address{row}, Pods: []store.Pod{known}}, []v1alpha1.Address{object}, nil, false},
		"the pod was told something":         {rows{Addresses: []store.Address{row}, Pods: []store.Pod{known}}, []v1alpha1.Address{object}, []corev1.Pod{told}, false},
		"something that is not attached has": {rows{Pods: []store.Pod{known}, Addresses: []store.Address{row}}, []v1alpha1.Address{object, {ObjectMeta: metav1.ObjectMeta{Name: "x"}}}, []corev1.Pod{pod}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := store.New()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Update(c.rows.fill); err != nil {
				t.Fatal(err)
			}
			s.View(func(tx store.ReadTx) {
				if got := agrees(tx, "node1", records, c.addresses, c.pods); got != c.want {
					t.Errorf("got %v, want %v", got, c.want)
				}
			})
		})
	}
}
