// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rollcall

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// cut is a node without its API server, whose daemon is told to end during a request.
type cut struct {
	Passes
	api
	end context.CancelFunc
}

func (cut) PodMTU() (int, <-chan struct{}) { return 1400, nil }

func (c cut) List(ctx context.Context, _ runtime.Object, _, _ string) error {
	c.end()
	return ctx.Err()
}

func TestACallThatIsNotAnsweredKeepsNoDaemon(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(func(tx store.Tx) error {
		return store.PutNode(tx, &store.Node{Meta: store.Meta{UID: "n", ResourceVersion: "1"}, Name: "node1"})
	}); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	node := cut{end: end}
	synced := func() (bool, <-chan struct{}) { return true, nil }
	New("node1", s, func() []journal.Record { return nil }, node, synced, node, slog.New(slog.DiscardHandler)).Run(ctx)
}
