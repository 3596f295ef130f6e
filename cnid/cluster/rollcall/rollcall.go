// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollcall replies to the operator's roll calls for a node.
package rollcall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
)

const (
	// reviewVNIs is the shortest interval between a node's reports of VNIs without a call.
	reviewVNIs = 10 * time.Second
	// firstAnswer and lastAnswer limit the wait between attempts, behindAnswer the wait
	// for the store to receive the API server's state.
	firstAnswer  = 100 * time.Millisecond
	behindAnswer = time.Second
	lastAnswer   = 30 * time.Second
	// replyWithin limits a reading of the API server's state. It is longer than requests wait in
	// the API server before it refuses them: given up earlier, and sent again, they would only
	// wait longer while all nodes reply.
	replyWithin = time.Minute
	// In a cluster of more than manyNodes, replies are spread over perNode for each node, at most
	// over mostSpread: the operator waits for them for 10 s.
	manyNodes  = 200
	perNode    = 5 * time.Millisecond
	mostSpread = 5 * time.Second
)

// Passes are the passes that program the node.
type Passes interface {
	// PodMTU is 0 before the first successful one; the channel is closed after the next.
	PodMTU() (int, <-chan struct{})
	// Programmed returns once one that begins from now on has succeeded.
	Programmed(ctx context.Context) error
	// VNIs returns the VNIs that the node programs or may come to program, ascending.
	VNIs() []uint32
}

// api has the requests of a reply to the API server.
type api interface {
	Get(ctx context.Context, object kube.Object) error
	List(ctx context.Context, list runtime.Object, namespace, fields string) error
	Create(ctx context.Context, object kube.Object) error
	Update(ctx context.Context, object kube.Object) error
}

// RollCall replies to the operator's calls, once no attachment of this node uses an
// address that the API does not have for it (docs/design/010).
type RollCall struct {
	node    string
	store   *store.Store
	records journal.Reader
	api     api
	// synced reports whether everything of this node has been read.
	synced broadcast.Gate
	passes Passes
	// nodes returns the size of the cluster.
	nodes func(tx store.ReadTx) int
	// review is the interval at which the node reads its reply: somebody may have deleted or changed
	// it. Each node reads, so a short interval costs the API server of a large cluster.
	review time.Duration
	log    *slog.Logger
	// written is the node's object after the last write; nil: it has to be read.
	written *v1alpha1.RollCall
}

// New returns a RollCall for a node with these records, in a cluster of so many nodes.
func New(
	node string,
	s *store.Store,
	records journal.Reader,
	api api,
	synced broadcast.Gate,
	passes Passes,
	nodes func(store.ReadTx) int,
	review time.Duration,
	log *slog.Logger,
) *RollCall {
	return &RollCall{
		node:    node,
		store:   s,
		records: records,
		api:     api,
		synced:  synced,
		passes:  passes,
		nodes:   nodes,
		review:  review,
		log:     log,
	}
}

// reply is the content of a node's reply.
type reply struct {
	call, nodeUID string
	vnis          []int32
}

func (r reply) equal(other reply) bool {
	return r.call == other.call && r.nodeUID == other.nodeUID && slices.Equal(r.vnis, other.vnis)
}

// task is the part of a reply that identifies the call.
type task struct{ call, nodeUID string }

// Run replies to calls until ctx ends.
func (r *RollCall) Run(ctx context.Context) {
	var last reply
	var reviewed time.Time
	pause := firstAnswer
	for {
		now, err := r.wait(ctx, last)
		if err != nil {
			return
		}
		if now != (task{last.call, last.nodeUID}) {
			r.spread(ctx)
			err = r.agree(ctx)
		}
		if err == nil && (!r.reply(now).equal(last) || time.Since(reviewed) >= r.review) {
			last, err = r.answer(ctx, now, last)
			reviewed = time.Now()
		}
		if err == nil {
			pause = firstAnswer
			continue
		}
		if ctx.Err() == nil {
			r.log.Warn("can't answer the operator's roll call; trying again", "error", err, "after", pause)
		}
		if errors.Is(err, errBehind) {
			pause = min(pause, behindAnswer) // the store soon catches up
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause + rand.N(pause)):
		}
		pause = min(2*pause, lastAnswer)
	}
}

// spread waits for this node's turn.
func (r *RollCall) spread(ctx context.Context) {
	nodes := 0
	r.store.View(func(tx store.ReadTx) { nodes = r.nodes(tx) })
	if nodes <= manyNodes {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(min(time.Duration(nodes)*perNode, mostSpread))):
	}
}

// wait returns when a reply is due, and after reviewVNIs.
func (r *RollCall) wait(ctx context.Context, last reply) (task, error) {
	var now task
	soon, cancel := context.WithTimeout(ctx, min(reviewVNIs, r.review))
	defer cancel()
	err := r.store.Wait(soon, func(tx store.ReadTx, ws *store.WatchSet) bool {
		synced, changed := r.synced()
		mtu, passed := r.passes.PodMTU()
		if !synced || mtu == 0 {
			// The first pass determines the VNIs that an earlier process programmed. Before it,
			// the reply would be incomplete.
			ws.Add(changed)
			ws.Add(passed)
			return false
		}
		now = r.look(tx)
		return now.nodeUID != "" && now != (task{last.call, last.nodeUID})
	})
	if err != nil && ctx.Err() == nil {
		err = nil // it is time to check the VNIs
	}
	return now, err
}

// look returns the present call.
func (r *RollCall) look(tx store.ReadTx) task {
	now := task{call: v1alpha1.NoCall}
	if row := store.GetRollCall(tx, v1alpha1.OperatorRollCall); row != nil {
		now.call = row.Call
	}
	if self := store.GetNode(tx, r.node); self != nil {
		now.nodeUID = self.UID
	}
	return now
}

// reply returns the node's reply to a call.
func (r *RollCall) reply(now task) reply {
	say := reply{call: now.call, nodeUID: now.nodeUID}
	for _, vni := range r.passes.VNIs() {
		say.vnis = append(say.vnis, int32(vni))
	}
	return say
}

// answer writes the node's reply if it differs from the last one, or if the API does not have the
// last one any more, and returns it.
func (r *RollCall) answer(ctx context.Context, now task, last reply) (reply, error) {
	if now.nodeUID == "" {
		return last, nil
	}
	say := r.reply(now)
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	if say.equal(last) {
		if kept, err := r.kept(ctx); err != nil || kept {
			return last, err
		}
		r.log.Warn("another program deleted or changed the node's answer to the operator's roll call; writing it again")
	}
	if err := r.write(ctx, say); err != nil {
		return last, fmt.Errorf("write the node's answer: %w", err)
	}
	return say, nil
}

// kept reports whether the API has the reply as this daemon wrote it. Without a reply, the operator
// would release addresses as on a node without a daemon (docs/design/159).
func (r *RollCall) kept(ctx context.Context) (bool, error) {
	object := &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(r.node)}}
	switch err := r.api.Get(ctx, object); {
	case apierrors.IsNotFound(err):
		r.written = nil
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the node's answer: %w", err)
	}
	kept := r.written != nil && r.written.ResourceVersion == object.ResourceVersion
	r.written = object
	return kept, nil
}

func (r *RollCall) write(ctx context.Context, say reply) error {
	object, write := r.written.DeepCopy(), r.api.Update
	if r.written == nil {
		object = &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(r.node)}}
		switch err := r.api.Get(ctx, object); {
		case apierrors.IsNotFound(err):
			write = r.api.Create
		case err != nil:
			return err
		}
	}
	r.written = nil
	object.Spec = v1alpha1.RollCallSpec{Call: say.call, VNIs: say.vnis}
	object.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: r.node, UID: types.UID(say.nodeUID)},
	}
	if err := write(ctx, object); err != nil {
		return err
	}
	r.written = object
	return nil
}
