// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package networkstatus reports the interfaces of this node's pods in their annotation
// k8s.v1.cni.cncf.io/network-status. It is for people and other programs: Alioth reads it
// only to see whether it is as it should be.
package networkstatus

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// retryAfter is the wait after a request to the API server that has failed.
const retryAfter = time.Second

// API is the part of the API server that a Reporter writes to.
type API interface {
	Patch(ctx context.Context, obj kube.Object, kind types.PatchType, data []byte, subresource ...string) error
}

// Config has the settings and functions of a Reporter. All fields are required.
type Config struct {
	API   API
	Store *store.Store
	// Synced reports whether the store has this node's pods.
	Synced    broadcast.Gate
	Journal   Journal
	Knowledge Knowledge
	Log       *slog.Logger
}

// Journal has the records of all attachments of the node.
type Journal interface {
	journal.Reader
	// OfPod returns the records of the pod with a UID.
	OfPod(uid string) []journal.Record
}

// Reporter writes the annotation. What it has not written when it ends, the next one
// writes at its start.
type Reporter struct {
	cfg Config

	mu      sync.Mutex
	waiting map[journal.Pod]bool
	changed broadcast.Signal
}

// New returns a Reporter.
func New(cfg Config) *Reporter { return &Reporter{cfg: cfg, waiting: map[journal.Pod]bool{}} }

// Attached reports the interfaces of a pod that was attached. It does not wait for the
// API server.
func (r *Reporter) Attached(pod journal.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[pod] = true
	r.changed.Send()
}

// Run writes annotations until ctx ends. It starts with the annotations of all attached pods.
func (r *Reporter) Run(ctx context.Context) {
	if !r.cfg.Synced.Wait(ctx) {
		return
	}
	for _, rec := range r.cfg.Journal.Records() {
		r.Attached(rec.Pod)
	}
	for ctx.Err() == nil {
		for _, next := range r.take(ctx) {
			if err := r.write(ctx, next); err != nil {
				r.cfg.Log.Warn("can't write the network status of a pod; trying again", "pod", next.pod.String(), "error", err)
				time.AfterFunc(retryAfter, func() { r.Attached(next.pod) })
			}
		}
	}
}

// attached is a pod with its row and its interfaces.
type attached struct {
	pod        journal.Pod
	row        *store.Pod
	interfaces []netif.Interface
}

// take waits for attached pods, and takes them from those that wait. A pod waits until its objects
// describe all of its interfaces: from a part of them it would get other names of networks.
func (r *Reporter) take(ctx context.Context) (list []attached) {
	// The only error is the end of ctx, which Run sees.
	_ = r.cfg.Store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		ws.Add(r.changed.Next())
		for pod := range r.waiting {
			row := store.GetPod(tx, pod.UID)
			if row == nil || row.Deleting || row.Terminal {
				delete(r.waiting, pod)
			} else if interfaces, missing := allocation.Interfaces(tx, row); missing == "" {
				delete(r.waiting, pod)
				list = append(list, attached{pod, row, interfaces})
			}
		}
		return len(list) > 0
	})
	return list
}

// write writes the annotation of a pod, if the pod should have one and has another.
func (r *Reporter) write(ctx context.Context, of attached) error {
	records := finished(r.cfg.Journal.OfPod(of.pod.UID))
	if len(records) == 0 {
		return nil
	}
	list := Of(of.interfaces, records, r.cfg.Knowledge)
	if list == nil {
		return nil
	}
	text, err := annotations.FormatNetworkStatus(list)
	if err != nil || text == of.row.NetworkStatus {
		return err
	}
	return r.patch(ctx, of.pod, text)
}

// patch sets the annotation of the pod with that UID. It does nothing for a pod that is gone, or
// was replaced.
func (r *Reporter) patch(ctx context.Context, pod journal.Pod, text string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{annotations.NetworkStatusKey: text},
	}})
	if err != nil {
		return fmt.Errorf("encode network status: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = r.cfg.API.Patch(ctx, object, types.MergePatchType, patch, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err): // as often as it is tried
		r.cfg.Log.Error("the API server refuses the network status of a pod", "pod", pod.String(), "error", err)
		return nil
	}
	return err
}
