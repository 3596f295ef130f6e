// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package announce writes the operator's events. An event for each change of a condition lets
// `kubectl describe` and `kubectl events` show when it changed; the controllers of pods and nodes
// write their own. NodeAudit reports rejected data of nodes. The recorders bound the length and
// the number of all events, and a Board makes each refusal one event. Objects that the store
// leaves out get an event, and a condition if their kind has one.
package announce

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds"
)

// notice is one event: its object and its text.
type notice struct {
	about                  runtime.Object
	level, reason, message string
}

// Subscribe announces changes from the moment on that leading is closed.
func Subscribe(f *feed.Feed, recorder events.EventRecorder, leading <-chan struct{}) {
	f.Subscribe(func(change feed.Change) {
		select {
		case <-leading:
		default:
			return // the leader announces it
		}
		for _, n := range noticesOf(change) {
			recorder.Eventf(n.about, nil, n.level, n.reason, "Check", "%s", n.message)
		}
	})
}

// noticesOf returns the events for a change: one for each condition with a new reason. A new
// message alone causes no event.
func noticesOf(change feed.Change) []notice {
	kind := kinds.OfRow(cmp.Or(change.New, change.Old))
	if kind == nil || kind.Conditions == nil || kind.OwnEvents {
		return nil
	}
	before, now := kind.Conditions.Verdict(change.Old), kind.Conditions.Verdict(change.New)
	var all []notice
	if now.Reason != "" && now.Reason != before.Reason && now.Reason != v1alpha1.VNIPendingReason &&
		now.Reason != v1alpha1.ReservingReason {
		n := notice{about(kind, now.ID), corev1.EventTypeWarning, now.Reason, now.Message}
		if now.Ready || now.Reason == v1alpha1.DeletingReason {
			n.level = corev1.EventTypeNormal
		}
		all = append(all, n)
	}
	if now.NameConflict != "" && before.NameConflict == "" {
		all = append(all, notice{about(kind, now.ID), corev1.EventTypeWarning, v1alpha1.NameConflictReason, now.NameConflict})
	}
	if now.NotIsolated != "" && before.NotIsolated == "" {
		all = append(
			all,
			notice{about(kind, now.ID), corev1.EventTypeWarning, v1alpha1.PodSecurityMissingReason, now.NotIsolated},
		)
	}
	return all
}

// about returns an object with nothing but its ID.
func about(kind *descriptor.Kind, id descriptor.ID) runtime.Object {
	object := kind.NewObject()
	object.SetNamespace(id.Namespace)
	object.SetName(id.Name)
	object.SetUID(types.UID(id.UID))
	return object
}
