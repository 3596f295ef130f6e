// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release releases the addresses and AttachmentClaims of pods that have left the
// node, after the kubelet has ended its probes of them.
package release

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

const (
	// reviewReleases is the interval between checks of remaining Addresses.
	reviewReleases = 30 * time.Second
	// retryReleases is the wait after a failure, usually of the API server.
	retryReleases = time.Second
)

// addressAPI has the requests of a releaser to the API server.
type addressAPI interface {
	Get(ctx context.Context, obj kube.Object) error
	Delete(ctx context.Context, obj kube.Object, uid types.UID) error
	Patch(ctx context.Context, obj kube.Object, kind types.PatchType, data []byte, subresource ...string) error
}

// Releaser deletes the Addresses of this node's pods that no longer have an attachment
// and will not get a new one. It decides by store, journal and API only, so it also
// finds Addresses that a DEL without the API server, or a crash, left behind.
type Releaser struct {
	node    string
	store   *store.Store
	journal *journal.Journal
	api     addressAPI
	facts   Facts
	log     *slog.Logger
	// kicked has one element when the journal's queue has grown.
	kicked chan struct{}
}

// Facts answers the questions of a releaser about its node.
type Facts interface {
	// Complete reports whether the node's pods and Addresses have been read. Nothing is released
	// before.
	Complete() bool
	// Holds reports whether an entry has to stay in the journal's queue for now.
	Holds(rec journal.Record) bool
}

// New returns a releaser of a node's addresses.
func New(node string, s *store.Store, j *journal.Journal, api addressAPI, facts Facts, log *slog.Logger) *Releaser {
	return &Releaser{node: node, store: s, journal: j, api: api, facts: facts, log: log, kicked: make(chan struct{}, 1)}
}

// Release implements attachment.Releaser.
func (r *Releaser) Release(journal.Record) {
	select {
	case r.kicked <- struct{}{}:
	default: // the pending pass will process this one too
	}
}

// Run releases until ctx ends.
func (r *Releaser) Run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := reviewReleases
		handled, err := r.pass(ctx)
		switch {
		case errors.Is(err, errNotRead):
			pause = retryReleases
		case err != nil:
			r.log.Warn("can't release addresses; trying again", "error", err, "after", retryReleases)
			pause = retryReleases
		}
		r.idle(ctx, handled, pause)
	}
}

// errNotRead reports that the node's pods and Addresses have not been read yet.
var errNotRead = errors.New("the node's pods and addresses have not been read yet")

// pass deletes releasable Addresses, reports releasable AttachmentClaims, and removes the
// processed entries from the queue. An entry of a pod stays if a release of the pod has failed.
// pass returns the UIDs of the pods that it released or decided to keep.
func (r *Releaser) pass(ctx context.Context) (handled map[string]bool, err error) {
	handled = map[string]bool{}
	if !r.facts.Complete() {
		return handled, errNotRead // an entry without an Address would wake nobody afterwards
	}
	queue := r.journal.Releases()
	var failures []error
	stuck := map[string]bool{} // by the UIDs of pods
	addresses, claims := r.candidates()
	for _, row := range addresses {
		if err := r.release(ctx, row); err != nil {
			failures, stuck[row.Holder.UID] = append(failures, fmt.Errorf("address %s: %w", row.Name, err)), true
		}
		handled[row.UID] = true
	}
	for _, row := range claims {
		if err := r.releaseClaim(ctx, row); err != nil {
			failures, stuck[row.PodUID] = append(
				failures,
				fmt.Errorf("AttachmentClaim %s/%s: %w", row.Namespace, row.Name, err),
			), true
		}
		handled[row.UID] = true
	}
	for _, rec := range queue {
		if r.facts.Holds(rec) || stuck[rec.Pod.UID] {
			continue
		}
		if err := r.journal.Released(rec.Seq); err != nil {
			failures = append(failures, err)
			break // so it is for the other entries
		}
	}
	return handled, errors.Join(failures...)
}

// candidates reads the pods before the journal. An ADD writes the journal before it
// checks again whether its pod is ending, so one of the two detects the other
// (docs/design/042).
func (r *Releaser) candidates() (addresses []*store.Address, claims []*multinet.Claim) {
	r.store.View(func(tx store.ReadTx) {
		addresses = releasable(tx, r.node, leavers(tx, r.attached))
		claims = releasableClaims(tx, r.node, r.attached)
	})
	return addresses, claims
}

func (r *Releaser) attached(uid string) bool { return len(r.journal.OfPod(uid)) > 0 }

// leavers returns a function that reports whether the pod of a UID has no attachment here
// and, according to the store, is gone or ending.
func leavers(tx store.ReadTx, attached func(uid string) bool) func(uid string) bool {
	return func(uid string) bool {
		pod := store.GetPod(tx, uid)
		return (pod == nil || pod.Deleting || pod.Terminal) && !attached(uid)
	}
}

// releasable returns the Addresses of this node whose pod is gone.
func releasable(tx store.ReadTx, node string, gone func(uid string) bool) []*store.Address {
	var list []*store.Address
	for _, row := range store.AddressesByNode(tx, node) {
		if row.Holder.Kind == store.HolderPod && !row.Deleting && gone(row.Holder.UID) {
			list = append(list, row)
		}
	}
	return list
}

// release checks the API before it deletes: the store may have an Address before the
// pod. The Address's UID as precondition protects a successor.
func (r *Releaser) release(ctx context.Context, row *store.Address) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	leaving, err := r.podLeaving(ctx, row.Holder)
	if err != nil || !leaving {
		return err
	}
	object := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: row.Name}}
	err = r.api.Delete(ctx, object, types.UID(row.UID))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is deleted already
	}
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	r.log.Info(
		"released address",
		"address",
		row.Name,
		"pod",
		row.Holder.Namespace+"/"+row.Holder.Name,
		"podUID",
		row.Holder.UID,
	)
	return nil
}

func (r *Releaser) podLeaving(ctx context.Context, holder store.Holder) (bool, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: holder.Namespace, Name: holder.Name}}
	err := r.api.Get(ctx, pod)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("get pod: %w", err)
	}
	other := string(pod.UID) != holder.UID
	terminal := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return other || terminal || pod.DeletionTimestamp != nil, nil
}

// idle returns when there is an Address to release that was not just handled, when the
// queue has grown, or after atMost.
func (r *Releaser) idle(ctx context.Context, handled map[string]bool, atMost time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	woken := make(chan struct{})
	go func() {
		select {
		case <-r.kicked:
			close(woken)
		case <-ctx.Done():
		}
	}()
	// An error means that atMost is over.
	_ = r.store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
		ws.Add(woken)
		select {
		case <-woken:
			return true
		default:
		}
		gone := leavers(tx, r.attached)
		isNew := func(uid string) bool { return !handled[uid] }
		return slices.ContainsFunc(releasable(tx, r.node, gone), func(row *store.Address) bool { return isNew(row.UID) }) ||
			slices.ContainsFunc(
				releasableClaims(tx, r.node, r.attached),
				func(row *multinet.Claim) bool { return isNew(row.UID) },
			)
	})
}
