// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/soak"
)

// roleWorld is a tenant with a Subnet whose bouncers change, on nodes whose daemons report at
// once.
type roleWorld struct {
	*world
	vpc     *v1alpha1.VPC
	reports []*v1alpha1.NodeRoles
	// replies are the nodes' answers to roll calls.
	replies []*v1alpha1.RollCall
	// listed is the revision that the nodes report.
	listed int64

	mu sync.Mutex
	// written has the member and stage of each revision, stages the stages of the present members.
	written map[int64]string
	stages  map[string]v1alpha1.Stage
	// served is true from the first member that served.
	served   bool
	problems []string
}

func newRoleWorld(t *testing.T, nodes int) *roleWorld {
	t.Helper()
	w := &roleWorld{world: newWorld(t, "rolekills"), vpc: &v1alpha1.VPC{}, written: map[int64]string{}, stages: map[string]v1alpha1.Stage{}}
	if err := w.Get(t.Context(), client.ObjectKey{Name: w.name}, w.vpc); err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		w.reports = append(w.reports, w.member(fmt.Sprintf("%s-%d", w.name, i)))
	}
	return w
}

// member makes a node that can be a member, and returns its report.
func (w *roleWorld) member(name string) *v1alpha1.NodeRoles {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.RoleNodeLabel: "true"}}}
	w.create(node)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := w.Status().Update(w.t.Context(), node); err != nil {
		w.t.Fatal(err)
	}
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}}
	reply := &v1alpha1.RollCall{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(name), OwnerReferences: owner},
		Spec:       v1alpha1.RollCallSpec{Call: "roles"},
	}
	report := &v1alpha1.NodeRoles{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owner}, Spec: v1alpha1.NodeRolesSpec{Protocol: v1alpha1.RoleProtocol}}
	w.create(reply, report)
	w.replies = append(w.replies, reply)
	w.t.Cleanup(func() {
		for _, object := range []client.Object{report, reply, node} {
			_ = w.Delete(context.WithoutCancel(w.t.Context()), object)
		}
	})
	return report
}

// follow plays the daemons, and notes every version of a member, until the test ends.
func (w *roleWorld) follow() {
	w.t.Helper()
	watching, err := client.NewWithWatch(w.config, client.Options{Scheme: w.Scheme()})
	if err != nil {
		w.t.Fatal(err)
	}
	members := w.watch(watching, &v1alpha1.RoleMemberList{}, client.MatchingFields{"spec.vpc": w.name})
	questions := w.watch(watching, &v1alpha1.RollCallList{}, client.MatchingFields{"metadata.name": v1alpha1.OperatorRollCall})
	var loops sync.WaitGroup
	loops.Go(func() {
		for event := range members.ResultChan() {
			m, ok := event.Object.(*v1alpha1.RoleMember)
			if !ok {
				w.fail("watch of members: %v", event.Object)
				continue
			}
			w.note(m, event.Type == watch.Deleted)
			if event.Type != watch.Deleted {
				w.report(m)
			}
		}
	})
	loops.Go(func() {
		for event := range questions.ResultChan() {
			if question, ok := event.Object.(*v1alpha1.RollCall); ok && event.Type != watch.Deleted {
				w.answer(question.Spec.Call)
			}
		}
	})
	w.t.Cleanup(func() { members.Stop(); questions.Stop(); loops.Wait() })
}

// watch watches the objects that a selector selects, from now on.
func (w *roleWorld) watch(by client.WithWatch, list client.ObjectList, selected client.ListOption) watch.Interface {
	w.t.Helper()
	if err := w.List(w.t.Context(), list, selected); err != nil {
		w.t.Fatal(err)
	}
	since := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	events, err := by.Watch(w.t.Context(), list, selected, since)
	if err != nil {
		w.t.Fatal(err)
	}
	return events
}

// answer answers a roll call for all nodes.
func (w *roleWorld) answer(call string) {
	for _, reply := range w.replies {
		reply.Spec.Call = call
		if err := w.Update(w.t.Context(), reply); err != nil && w.t.Context().Err() == nil {
			w.fail("answer of %s: %v", reply.Name, err)
		}
	}
}

// note checks that no revision stands for two states, and that some member serves. A member that
// joins has the last revision. Its VPC does not raise the revision for it.
func (w *roleWorld) note(m *v1alpha1.RoleMember, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := fmt.Sprintf("%s %s %s", m.Name, m.UID, m.Spec.Stage)
	if m.Spec.Stage != v1alpha1.StageJoining {
		if before, known := w.written[m.Spec.Revision]; known && before != state {
			w.problems = append(w.problems, fmt.Sprintf("revision %d stood for %q and for %q", m.Spec.Revision, before, state))
		}
		w.written[m.Spec.Revision] = state
	}
	if w.stages[m.Name] = m.Spec.Stage; gone {
		delete(w.stages, m.Name)
	}
	serving := 0
	for _, stage := range w.stages {
		if stage == v1alpha1.StageServing {
			serving++
		}
	}
	if w.served = w.served || serving > 0; w.served && serving == 0 {
		w.problems = append(w.problems, "nobody serves after "+state)
	}
}

// report has the member's node report its table, and all nodes that they list it. A report
// that fails comes again with the next version of the member.
func (w *roleWorld) report(m *v1alpha1.RoleMember) {
	ctx := w.t.Context()
	if m.Spec.Stage == v1alpha1.StageJoining && !m.Status.Complete {
		m.Status.Complete = true
		err := w.Status().Update(ctx, m)
		if changed := apierrors.IsConflict(err) || apierrors.IsNotFound(err); err != nil && !changed && ctx.Err() == nil {
			w.fail("report that %s is complete: %v", m.Name, err)
		}
		return
	}
	w.listed = max(w.listed, m.Spec.Revision)
	for _, report := range w.reports {
		report.Spec.VPCs = []v1alpha1.ListedMembers{{UID: string(w.vpc.UID), Revision: w.listed}}
		if err := w.Update(ctx, report); err != nil && ctx.Err() == nil {
			w.fail("report of %s: %v", report.Name, err)
		}
	}
}

func (w *roleWorld) fail(format string, values ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, values...))
}

// want sets the number of bouncers.
func (w *roleWorld) want(n int32) {
	w.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"bouncers":%d}}`, n))
	if err := w.Patch(w.t.Context(), &v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: w.name}}, patch); err != nil {
		w.t.Fatal(err)
	}
}

// settled returns an error unless exactly n members serve.
func (w *roleWorld) settled(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, stage := range w.stages {
		if stage != v1alpha1.StageServing {
			return fmt.Errorf("the members are %v", w.stages)
		}
	}
	if len(w.stages) != n {
		return fmt.Errorf("the members are %v, want %d", w.stages, n)
	}
	return nil
}

// roleWrites is how many writes of members and revisions a replica has asked for.
func roleWrites(r *replica, from int) (n int) {
	for _, request := range r.gateway.since(from) {
		if request.write() && (strings.Contains(request.path, "/rolemembers") || strings.Contains(request.path, "/vpcs/")) {
			n++
		}
	}
	return n
}

// TestLeader_KilledInMemberChange_SuccessorCompletes: two replicas run. The leader is killed when
// it has asked for a number of writes, or is done.
func TestLeader_KilledInMemberChange_SuccessorCompletes(t *testing.T) {
	const mostWrites = 5
	w := newRoleWorld(t, 4)
	w.follow()
	numbers := []int32{1, 4, 2, 3, 1, 3}
	replicas := []*replica{w.start(), w.start()}
	for range soak.Or(t, 5, 1) {
		for writes := range mostWrites + 1 {
			leader, other := w.leader(replicas[0], replicas[1])
			n := numbers[writes%len(numbers)]
			sent := len(leader.gateway.since(0))
			w.want(n)
			w.eventually(func() error {
				if err := errors.Join(leader.alive(), w.settled(int(n))); roleWrites(leader, sent) < writes && err != nil {
					return fmt.Errorf("the leader has asked for %d writes, not %d yet: %w", roleWrites(leader, sent), writes, err)
				}
				return nil
			})
			leader.signal(syscall.SIGKILL)
			<-leader.ended
			w.freeLease()
			w.eventually(func() error { return w.settled(int(n)) })
			replicas = []*replica{other, w.start()}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, problem := range w.problems {
		t.Error(problem)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(w.vpc), w.vpc); err != nil {
		t.Fatal(err)
	}
	for revision, state := range w.written {
		if revision > w.vpc.Status.RolesRevision {
			t.Errorf("%s has revision %d, and the VPC %d", state, revision, w.vpc.Status.RolesRevision)
		}
	}
}

// start starts a replica that places roles.
func (w *roleWorld) start() *replica {
	w.t.Helper()
	r := startReplica(w.t, w.config, w.name, "--scaled-endpoints=true")
	w.eventually(r.ready)
	return r
}

// freeLease lets the other replica lead at once, as if the time of the killed replica had run out.
func (w *world) freeLease() {
	w.t.Helper()
	leases := kubernetes.NewForConfigOrDie(w.config).CoordinationV1().Leases(w.name)
	if err := leases.Delete(w.t.Context(), "alioth-operator", metav1.DeleteOptions{}); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
}
