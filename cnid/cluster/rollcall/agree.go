// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rollcall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/core"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// errBehind reports that the store is older than the API server's state.
var errBehind = errors.New("the state that was read of this node is older than that of the API server")

// agree returns after a pass with the API server's present state of this node. The pass
// disconnects sandboxes that the API lacks, for example after a restore from a backup.
// The store alone may lag behind a restore.
//
// The API server compares all Addresses of the cluster with a selector, and has an index of
// pods by their node. So the node's pods are listed, and an Address is read by its name, and
// only where no living pod reserves it by its allocation status.
func (r *RollCall) agree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, replyWithin)
	defer cancel()
	// The journal first: later attachments depend on later reads.
	records := r.records.Records()
	if len(records) > 0 {
		now, err := r.read(ctx, records)
		if err != nil {
			return err
		}
		var same bool
		r.store.View(func(tx store.ReadTx) { same = agrees(tx, r.node, records, now) })
		if !same {
			return errBehind
		}
	}
	return r.passes.Programmed(ctx)
}

// apiState is the API server's state of the objects that the records of a node depend on.
type apiState struct {
	// pods of the node, by UID.
	pods map[string]*store.Pod
	// held are the UIDs of unreserved Addresses of this node, by name.
	held map[string]string
}

// read reads the present state from the API server itself.
func (r *RollCall) read(ctx context.Context, records []journal.Record) (apiState, error) {
	var pods corev1.PodList
	if err := r.api.List(ctx, &pods, "", fields.OneTermEqualSelector("spec.nodeName", r.node).String()); err != nil {
		return apiState{}, fmt.Errorf("list the node's pods: %w", err)
	}
	now := apiState{pods: rowsOf(pods.Items), held: map[string]string{}}
	for name := range now.unreserved(records) {
		address := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: name}}
		switch err := r.api.Get(ctx, address); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return apiState{}, fmt.Errorf("read Address %s: %w", name, err)
		case address.Spec.Node == r.node:
			now.held[name] = string(address.UID)
		}
	}
	return now, nil
}

// rowsOf returns the rows of pods by UID.
func rowsOf(pods []corev1.Pod) map[string]*store.Pod {
	rows := map[string]*store.Pod{}
	for i := range pods {
		if row, err := core.Pod.Convert(&pods[i]); err == nil && row != nil {
			rows[row.UID] = row
		}
	}
	return rows
}

// unreserved returns the names of the records' Addresses that no living pod reserves.
func (s apiState) unreserved(records []journal.Record) map[string]bool {
	names := map[string]bool{}
	for _, rec := range records {
		for _, ip := range s.checked(rec) {
			names[v1alpha1.AddressName(rec.VPC, ip)] = true
		}
	}
	return names
}

// checked returns the addresses of a record whose Addresses must be compared: none where the
// allocation status of the living pod has them, because the operator keeps them for the pod
// (docs/design/010), and none outside of every VPC.
func (s apiState) checked(rec journal.Record) (ips []netip.Addr) {
	for _, prefix := range rec.Addrs {
		ips = append(ips, prefix.Addr())
	}
	if pod := s.pods[rec.Pod.UID]; rec.VPC == "" || pod != nil && allocation.Same(pod, rec.VPC, ips) {
		return nil
	}
	return ips
}

// agrees reports whether the store equals the API server's state in the fields that
// decide whether the attachments of a node are lost.
func agrees(tx store.ReadTx, node string, records []journal.Record, now apiState) bool {
	return !slices.ContainsFunc(records, func(rec journal.Record) bool {
		return wordOf(now.pods[rec.Pod.UID]) != wordOf(store.GetPod(tx, rec.Pod.UID)) ||
			slices.ContainsFunc(now.checked(rec), func(ip netip.Addr) bool {
				return now.held[v1alpha1.AddressName(rec.VPC, ip)] != heldIn(tx, node, rec.VPC, ip)
			})
	})
}

// heldIn returns the UID of a node's Address in the store, "" without one.
func heldIn(tx store.ReadTx, node, vpc string, ip netip.Addr) string {
	if row := store.AddressByIP(tx, vpc, ip); row != nil && row.Node == node {
		return row.UID
	}
	return ""
}

// wordOf returns the allocation status of a pod as text, "" without a status.
func wordOf(pod *store.Pod) string {
	if pod == nil {
		return ""
	}
	return fmt.Sprint(pod.Attachments, pod.NetworkReady, pod.Reason, pod.Deleting, pod.Terminal)
}
