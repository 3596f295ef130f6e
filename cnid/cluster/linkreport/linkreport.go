// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package linkreport writes the failures of a node's host links, and its addresses for them,
// into its HostLinkReport object.
package linkreport

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// retryAfter is the wait after a request to the API server that has failed.
const retryAfter = time.Second

// maxMessage bounds the message of one failure, in bytes.
const maxMessage = 512

// API is the part of the API server that a Reporter needs.
type API interface {
	Get(ctx context.Context, obj kube.Object) error
	Create(ctx context.Context, obj kube.Object) error
	Update(ctx context.Context, obj kube.Object) error
}

// Reporter writes the report of one node.
type Reporter struct {
	node  string
	api   API
	store *store.Store
	log   *slog.Logger

	mu sync.Mutex
	// known is true once the failures are: the report of an ended daemon stays until then.
	known   bool
	now     v1alpha1.HostLinkReportSpec
	changed broadcast.Signal
}

// New returns a Reporter of a node.
func New(node string, api API, s *store.Store, log *slog.Logger) *Reporter {
	return &Reporter{node: node, api: api, store: s, log: log}
}

// Failed sets the failures in the report. It does not wait for the API server.
func (r *Reporter) Failed(list []multinet.LinkFailure) {
	now := failuresOf(list)
	r.change(func(spec *v1alpha1.HostLinkReportSpec) {
		r.known = true
		spec.Failures, spec.More = now.Failures, now.More
	})
}

// Addressed sets the addresses in the report. It does not wait for the API server.
func (r *Reporter) Addressed(list []multinet.DeviceAddrs) {
	var now []v1alpha1.HostLinkAddresses
	for _, at := range list[:min(len(list), v1alpha1.MaxHostLinkAddresses)] {
		entry := v1alpha1.HostLinkAddresses{Device: at.Device}
		for _, ip := range at.Addrs {
			entry.IPs = append(entry.IPs, ip.String())
		}
		now = append(now, entry)
	}
	r.change(func(spec *v1alpha1.HostLinkReportSpec) { spec.Addresses, spec.Addressed = now, len(now) > 0 })
}

// Configured sets the NetworkIDs in the report that the node has configurations for, nil if they
// are unknown. It does not wait for the API server.
func (r *Reporter) Configured(ids []string) {
	known := ids != nil && len(ids) <= v1alpha1.MaxHostLinkConfigurations
	if !known {
		ids = nil
	}
	r.change(func(spec *v1alpha1.HostLinkReportSpec) { spec.Configurations, spec.Configured = ids, known })
}

// change changes a part of the report.
func (r *Reporter) change(part func(*v1alpha1.HostLinkReportSpec)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	part(&r.now)
	r.changed.Send()
}

// failuresOf returns a report of failures, with as many of them as it has room for.
func failuresOf(list []multinet.LinkFailure) (spec v1alpha1.HostLinkReportSpec) {
	for _, f := range list[:min(len(list), v1alpha1.MaxHostLinkFailures)] {
		spec.Failures = append(spec.Failures, v1alpha1.HostLinkFailure{
			Device: f.Device, Type: f.Type, VNI: int32(f.VNI), Reason: f.Reason,
			Message: quote.Bounded(f.Message, maxMessage),
		})
	}
	spec.More = int32(len(list) - len(spec.Failures))
	return spec
}

func same(a, b v1alpha1.HostLinkReportSpec) bool {
	return a.More == b.More && slices.Equal(a.Failures, b.Failures) && a.Addressed == b.Addressed &&
		a.Configured == b.Configured && slices.Equal(a.Configurations, b.Configurations) &&
		slices.EqualFunc(a.Addresses, b.Addresses, func(x, y v1alpha1.HostLinkAddresses) bool {
			return x.Device == y.Device && slices.Equal(x.IPs, y.IPs)
		})
}

// Run keeps the report, and writes it again for a Node that replaces the node's, until ctx
// ends.
func (r *Reporter) Run(ctx context.Context) {
	var done v1alpha1.HostLinkReportSpec
	var doneUID string
	for ctx.Err() == nil {
		var want v1alpha1.HostLinkReportSpec
		var uid string
		err := r.store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			ws.Add(r.changed.Next())
			want = r.now
			if row := store.GetNode(tx, r.node); row != nil {
				uid = row.UID
			}
			return r.known && uid != "" && (uid != doneUID || !same(want, done))
		})
		if err != nil {
			return
		}
		if err := r.write(ctx, uid, want); err != nil {
			r.log.Warn("can't write the report about host links; trying again", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
			continue
		}
		done, doneUID = want, uid
	}
}

// write creates or changes the object. A node that never had a report has no object.
func (r *Reporter) write(ctx context.Context, uid string, want v1alpha1.HostLinkReportSpec) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	object := &v1alpha1.HostLinkReport{ObjectMeta: metav1.ObjectMeta{Name: r.node}}
	err := r.api.Get(ctx, object)
	exists := err == nil
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: r.node, UID: types.UID(uid)}
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("read it: %w", err)
	case !exists && same(want, v1alpha1.HostLinkReportSpec{}),
		exists && same(object.Spec, want) && slices.Equal(object.OwnerReferences, []metav1.OwnerReference{owner}):
		return nil
	}
	object.Spec, object.OwnerReferences = want, []metav1.OwnerReference{owner}
	if exists {
		return r.api.Update(ctx, object)
	}
	return r.api.Create(ctx, object)
}
