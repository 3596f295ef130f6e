// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/store/client/kube"
)

// reportEvery is how old a report gets that is still true.
const reportEvery = time.Hour

// writeTries is how often a report is written that others overtake: the policy handler
// writes into the same status.
const writeTries = 3

// reported has the last report that was written, and why no newer one could be.
type reported struct {
	last report
	at   time.Time
	// err is the error of the last attempt, failures the number of consecutive failed attempts,
	// and again the time of the next attempt.
	err      error
	failures int
	again    time.Time
}

// due is when a report is due without a change; zero if none is.
func (r reported) due() time.Time {
	switch {
	case r.err != nil:
		return r.again
	case r.at.IsZero() || r.last.unmanaged:
		return time.Time{}
	default:
		return r.at.Add(reportEvery)
	}
}

// has reports whether the object has a report, which is not too old.
func (r reported) has(next report, now time.Time) bool {
	due := r.due()
	return r.err == nil && next.uid != "" && next.equal(r.last) && (due.IsZero() || now.Before(due))
}

// report writes a report if the object does not have it. After a failure there is a pause.
func (h *Handler) report(ctx context.Context, r report) error {
	now := time.Now()
	if h.reported.has(r, now) {
		return nil
	}
	if now.Before(h.reported.again) {
		return h.reported.err
	}
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	r, err := h.write(ctx, r)
	if err != nil {
		h.reported.failures++
		h.reported.again = time.Now().Add(pauseAfter(h.reported.failures))
		h.reported.err = fmt.Errorf("report the network of the node: %w", err)
		return h.reported.err
	}
	h.reported = reported{last: r, at: time.Now()}
	return nil
}

// write writes a report into the object, and returns what the object has of it.
func (h *Handler) write(ctx context.Context, r report) (written report, err error) {
	for range writeTries {
		if written, err = h.try(ctx, r); err == nil || !overtaken(err) {
			break
		}
	}
	return written, err
}

// overtaken reports whether the object has changed since it was read.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

// try is one attempt of write. It makes a missing object without a desired state, which
// nobody but its author has.
func (h *Handler) try(ctx context.Context, r report) (report, error) {
	object := &v1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: h.cfg.Node}}
	err := h.cfg.API.Get(ctx, object)
	if apierrors.IsNotFound(err) {
		object, err = h.make(ctx)
		if err == nil {
			r = r.ofNew(object)
		}
	}
	if err != nil {
		return r, err
	}
	if object.UID != r.uid {
		r = report{current: r.current}
	}
	r.into(object)
	// A merge would leave fields of the current state that are gone.
	return r, kube.ReplaceStatus(ctx, h.cfg.API, object, object.Status)
}

// make makes the object. It goes with its node.
func (h *Handler) make(ctx context.Context) (*v1beta1.NodeNetworkState, error) {
	object := &v1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: h.cfg.Node}}
	if h.wanted.NodeUID != "" {
		object.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: h.cfg.Node, UID: h.wanted.NodeUID},
		}
	}
	if err := h.cfg.API.Create(ctx, object); err != nil {
		return nil, fmt.Errorf("make the NodeNetworkState: %w", err)
	}
	return object, nil
}
