// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package roles reports the programmed state of a node's bouncers and dividers: which of its own
// role members have their whole table, and the revision of the members of each VPC that the node
// lists (docs/design/140).
package roles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/roles"
)

const (
	// together is the least time between two reports of a node about the members that it
	// lists, spread is by how much more they differ in a cluster of more than manyNodes.
	together  = 2 * time.Second
	spread    = 10 * time.Second
	manyNodes = 200
	// retryAfter is the wait after a request to the API server that has failed.
	retryAfter = time.Second
)

// API is the part of the API server that a Reporter needs.
type API interface {
	Get(ctx context.Context, obj kube.Object) error
	Create(ctx context.Context, obj kube.Object) error
	Update(ctx context.Context, obj kube.Object) error
	Patch(ctx context.Context, obj kube.Object, kind types.PatchType, data []byte, subresource ...string) error
}

// Programmed returns the roles that the last successful pass has programmed, with false before
// the first pass, and a channel that is closed after the next pass.
type Programmed func() (plan.Roles, bool, <-chan struct{})

// Reporter writes the reports of one node.
type Reporter struct {
	node       string
	api        API
	store      *store.Store
	programmed Programmed
	// nodes returns the size of the cluster.
	nodes func(tx store.ReadTx) int
	log   *slog.Logger
	// sent are the UIDs of members that the node has reported as complete, until their objects
	// say so.
	sent map[string]bool
	// written is the node's object after the last write; nil: it has to be read.
	written *v1alpha1.NodeRoles
}

// New returns a Reporter of a node, in a cluster of so many nodes.
func New(
	node string,
	api API,
	s *store.Store,
	programmed Programmed,
	nodes func(store.ReadTx) int,
	log *slog.Logger,
) *Reporter {
	return &Reporter{
		node:       node,
		api:        api,
		store:      s,
		programmed: programmed,
		nodes:      nodes,
		log:        log,
		sent:       map[string]bool{},
	}
}

// pause returns the time between two reports in a cluster of so many nodes.
func pause(nodes int) time.Duration {
	if nodes <= manyNodes {
		return together
	}
	return together + rand.N(spread)
}

// report is the content of a NodeRoles object.
type report struct {
	nodeUID string
	listed  map[string]int64
}

func (r report) equal(other report) bool {
	return r.nodeUID == other.nodeUID && maps.Equal(r.listed, other.listed)
}

// task has the objects that are left to write.
type task struct {
	report
	// complete are members of this node whose objects lack that their table is complete.
	complete []*roles.Member
	// nodes is the size of the cluster.
	nodes int
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	var last report
	var next time.Time
	for ctx.Err() == nil {
		t, err := r.wait(ctx, last, next)
		if err != nil {
			return
		}
		err = r.complete(ctx, t.complete)
		if !t.equal(last) && !time.Now().Before(next) {
			failure := r.list(ctx, t.report)
			if failure == nil {
				last, next = t.report, time.Now().Add(pause(t.nodes))
			}
			err = errors.Join(err, failure)
		}
		if err != nil {
			r.retry(ctx, err)
		}
	}
}

func (r *Reporter) retry(ctx context.Context, err error) {
	r.log.Warn("can't report about roles; trying again", "error", err, "after", retryAfter)
	select {
	case <-ctx.Done():
	case <-time.After(retryAfter):
	}
}

// wait returns once there is something to write: about complete members at once, about
// listed ones not before next.
func (r *Reporter) wait(ctx context.Context, last report, next time.Time) (t task, err error) {
	for {
		due, cancel := context.WithDeadline(ctx, later(next, time.Now().Add(time.Minute)))
		err = r.store.Wait(due, func(tx store.ReadTx, ws *store.WatchSet) bool {
			programmed, passed, changed := r.programmed()
			ws.Add(changed)
			if self := store.GetNode(tx, r.node); passed && self != nil {
				t = r.look(tx, self, programmed)
				return len(t.complete) > 0 || !t.equal(last) && !time.Now().Before(next)
			}
			return false
		})
		cancel()
		if err == nil || ctx.Err() != nil {
			return t, err
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(time.Now()) {
		return a
	}
	return b
}

// look returns the objects to write after a pass. It does not report later changes of the store:
// the next pass programs them.
func (r *Reporter) look(tx store.ReadTx, self *store.Node, programmed plan.Roles) task {
	t := task{report: report{nodeUID: self.UID, listed: programmed.Listed}, nodes: r.nodes(tx)}
	sent := map[string]bool{}
	for _, m := range roles.MembersByNode(tx, r.node) {
		switch {
		case !programmed.Complete[m.Name] || m.Complete || !roles.IsOn(tx, m, r.node):
		case r.sent[m.UID]:
			sent[m.UID] = true // its event is still to come
		default:
			t.complete = append(t.complete, m)
		}
	}
	r.sent = sent
	return t
}

// complete reports that the tables of members are complete. The UID identifies the member whose
// table it is: a successor of the same name is complete when its own table is.
func (r *Reporter) complete(ctx context.Context, members []*roles.Member) (failed error) {
	for _, m := range members {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"complete":true}}`, m.UID)
		object := &v1alpha1.RoleMember{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
		err := r.request(ctx, func(ctx context.Context) error {
			return r.api.Patch(ctx, object, types.MergePatchType, []byte(patch), "status")
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = errors.Join(failed, fmt.Errorf("report that RoleMember %s is complete: %w", m.Name, err))
			continue
		}
		r.sent[m.UID] = true
	}
	return failed
}

// list writes which members the node lists. A node without any reports that it can use
// roles.
func (r *Reporter) list(ctx context.Context, want report) error {
	object, write, verb := r.written.DeepCopy(), r.api.Update, "update"
	if r.written == nil {
		object = &v1alpha1.NodeRoles{ObjectMeta: metav1.ObjectMeta{Name: r.node}}
		err := r.request(ctx, func(ctx context.Context) error { return r.api.Get(ctx, object) })
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("read NodeRoles %s: %w", r.node, err)
		}
		if err != nil {
			write, verb = r.api.Create, "create"
		}
	}
	r.written = nil
	object.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: r.node, UID: types.UID(want.nodeUID)},
	}
	object.Spec = specOf(want.listed)
	if err := r.request(ctx, func(ctx context.Context) error { return write(ctx, object) }); err != nil {
		return fmt.Errorf("%s NodeRoles %s: %w", verb, r.node, err)
	}
	r.written = object
	return nil
}

func specOf(listed map[string]int64) v1alpha1.NodeRolesSpec {
	spec := v1alpha1.NodeRolesSpec{Protocol: v1alpha1.RoleProtocol}
	for _, uid := range slices.Sorted(maps.Keys(listed)) {
		spec.VPCs = append(spec.VPCs, v1alpha1.ListedMembers{UID: uid, Revision: listed[uid]})
	}
	return spec
}

func (r *Reporter) request(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	return do(ctx)
}
