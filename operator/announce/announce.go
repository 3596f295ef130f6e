// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package announce tells in events what the conditions of VPCs, Subnets,
// Networks, SharedServices, ExternalPools and HostAccess objects come to say, so that
// `kubectl describe` and `kubectl events` show when it changed. Pods and nodes are told by their own controllers.
package announce

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
)

// noteLimit is the length of an event's note that the API accepts, in bytes.
const noteLimit = 1000

// notice is one event: about what, and what a person reads there.
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
			return // the leader tells
		}
		for _, n := range noticesOf(change) {
			recorder.Eventf(n.about, nil, n.level, n.reason, "Check", "%s", shorten(n.message))
		}
	})
}

// noticesOf returns what is to be announced about a change: a reason that is
// new, whatever becomes of the text beside it.
func noticesOf(change feed.Change) []notice {
	before, now := verdictOf(change.Old), verdictOf(change.New)
	var all []notice
	if now.reason != "" && now.reason != before.reason && now.reason != v1alpha1.VNIPendingReason {
		n := notice{now.about, corev1.EventTypeWarning, now.reason, now.message}
		if now.ready || now.reason == v1alpha1.DeletingReason {
			n.level = corev1.EventTypeNormal
		}
		all = append(all, n)
	}
	if now.nameConflict != "" && before.nameConflict == "" {
		all = append(all, notice{now.about, corev1.EventTypeWarning, v1alpha1.NameConflictReason, now.nameConflict})
	}
	return all
}

func shorten(note string) string {
	if len(note) <= noteLimit {
		return note
	}
	return note[:noteLimit-3] + "..."
}

// verdict is what a row says about the conditions of its object.
type verdict struct {
	about           runtime.Object
	ready           bool
	reason, message string
	// nameConflict is the message of the condition NameConflict.
	nameConflict string
}

// verdictOf reads a row; that of a row of another kind is empty.
func verdictOf(row any) verdict {
	switch row := row.(type) {
	case *store.VPC:
		return verdict{&v1alpha1.VPC{ObjectMeta: named("", row.Name, row.UID)}, row.Ready, row.Reason, row.Message, ""}
	case *store.Subnet:
		return verdict{&v1alpha1.Subnet{ObjectMeta: named("", row.Name, row.UID)}, row.Ready, row.Reason, row.Message, ""}
	case *store.SharedService:
		return verdict{&v1alpha1.SharedService{ObjectMeta: named("", row.Name, row.UID)}, row.Ready, row.Reason, row.Message, ""}
	case *store.ExternalPool:
		return verdict{&v1alpha1.ExternalPool{ObjectMeta: named("", row.Name, row.UID)}, row.Ready, row.Reason, row.Message, ""}
	case *store.HostAccess:
		return verdict{&v1alpha1.HostAccess{ObjectMeta: named("", row.Name, row.UID)}, row.Ready, row.Reason, row.Message, ""}
	case *store.Network:
		about := &arktosv1.Network{ObjectMeta: named(row.Namespace, row.Name, row.UID)}
		return verdict{about, row.Ready, row.Reason, row.Message, row.NameConflict}
	}
	return verdict{}
}

func named(namespace, name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}
}
