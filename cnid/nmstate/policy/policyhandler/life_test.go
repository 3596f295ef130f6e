// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// life is the life of the policy blue on two nodes, which change one after the other. The
// test is their state handler.
type life struct {
	*testing.T
	api API
	// interrupted is the API of the handlers, nil if it is api too.
	interrupted *interruption
}

func (l life) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func newBlue() *nmstatev1.NodeNetworkConfigurationPolicy {
	limit := intstr.FromInt32(1)
	return &nmstatev1.NodeNetworkConfigurationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "blue"},
		Spec: nmstatev1.NodeNetworkConfigurationPolicySpec{
			NodeSelector:   map[string]string{"rack": "blue"},
			DesiredState:   raw(`{"interfaces":[{"name":"eth1","mtu":9000}]}`),
			MaxUnavailable: &limit,
		},
	}
}

func newBlueNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": "blue"}}}
}

// once handles policies, with all nodes.
func (l life) once() {
	l.Helper()
	cfg := configFor(l.T, l.api, nil, clock.RealClock{})
	objects, err := cfg.Nodes(l.Context())
	l.must(err)
	var names []string
	for i := range objects {
		names = append(names, objects[i].Name)
	}
	if l.interrupted == nil {
		l.must(Once(l.Context(), cfg, names))
		return
	}
	cfg.API, err = l.interrupted, errInterrupted
	for errors.Is(err, errInterrupted) {
		l.interrupted.over = false
		err = Once(l.Context(), cfg, names)
	}
	l.must(err)
}

// report writes the status as a state handler does: the current state, and that the desired state
// is enforced.
func (l life) report(node, current string) { l.Helper(); l.tell(node, current, "") }

// tell is report with the cause of a failure, "" for none.
func (l life) tell(node, current, cause string) {
	l.Helper()
	object := newState(node)
	err := l.api.Get(l.Context(), object)
	if apierrors.IsNotFound(err) {
		err = l.api.Create(l.Context(), object)
	}
	l.must(err)
	conditions, reason := slices.Clone(object.Status.Conditions), nmstatev1.SuccessfullyConfiguredReason
	var failures []nmstatev1beta1.Failure
	if cause != "" {
		reason, failures = nmstatev1.FailedToConfigureReason, []nmstatev1beta1.Failure{{Message: cause}}
	}
	for kind, is := range map[string]bool{nmstatev1.AvailableCondition: cause == "", nmstatev1.FailingCondition: cause != ""} {
		status := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[is]
		meta.SetStatusCondition(&conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: cause})
	}
	l.must(kube.PatchStatus(l.Context(), l.api, object,
		kube.Set{Field: "currentState", Value: raw(current)}, kube.Set{Field: "observedDesiredGeneration", Value: object.Generation},
		kube.Set{Field: "failures", Value: failures}, kube.Set{Field: "conditions", Value: conditions}))
}

// phases are the conditions of the enactments on n1 and n2, and of the policy, that are true.
func (l life) phases() string {
	l.Helper()
	text := ""
	for _, node := range []string{"n1", "n2"} {
		object := newEnactment(node + ".blue")
		l.must(l.api.Get(l.Context(), object))
		text += isTrue(object.Status.Conditions) + " "
		if slot := object.Status.Slot; slot != nil && slot.Expires.After(time.Now()) {
			text += "with slot "
		}
	}
	object := &nmstatev1.NodeNetworkConfigurationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
	l.must(l.api.Get(l.Context(), object))
	return fmt.Sprintf("%s%s of %d", text, isTrue(object.Status.Conditions), object.Status.UnavailableNodeCount)
}

func isTrue(conditions []metav1.Condition) string {
	text := ""
	for _, one := range conditions {
		if one.Status == metav1.ConditionTrue {
			text += one.Type
		}
	}
	return text
}

// wants fails unless the desired state of a node is a document, "" for none.
func (l life) wants(node, want string) {
	l.Helper()
	object := newState(node)
	l.must(l.api.Get(l.Context(), object))
	got := ""
	if object.Spec.DesiredState != nil {
		got = string(object.Spec.DesiredState.Raw)
	}
	if got != want && !kube.SameJSON([]byte(got), []byte(want)) {
		l.Errorf("node %s: the desired state is %s, want %s", node, got, want)
	}
}

const (
	small = `{"interfaces":[{"name":"eth1","type":"ethernet","state":"up","mtu":1500}]}`
	large = `{"interfaces":[{"name":"eth1","type":"ethernet","state":"up","mtu":9000}]}`
)

func (l life) run() {
	for _, node := range []string{"n1", "n2"} {
		l.must(l.api.Create(l.Context(), newBlueNode(node)))
		l.report(node, small)
	}
	policy := newBlue()
	l.must(l.api.Create(l.Context(), policy))
	l.once()
	l.expect("Progressing with slot Pending Progressing of 1")
	l.wants("n2", "")
	l.report("n1", large)
	l.once()
	l.expect("Available Progressing with slot Progressing of 1")
	l.report("n2", large)
	l.once()
	l.expect("Available Available Available of 0")
	l.tell("n1", large, "eth1 is busy")
	l.once()
	l.expect("Failing Available Degraded of 0")
	l.report("n1", large)
	l.once()
	l.expect("Available Available Available of 0")
	l.must(l.api.Delete(l.Context(), policy, policy.UID))
	l.once()
	for _, node := range []string{"n1", "n2"} {
		l.wants(node, `{"interfaces":[{"name":"eth1","state":"up","mtu":1500}]}`)
	}
	// A handler that ends between the last two writes needs a second report.
	for range 2 {
		l.report("n1", small)
		l.report("n2", small)
		l.once()
	}
	var left nmstatev1beta1.NodeNetworkConfigurationEnactmentList
	l.must(l.api.List(l.Context(), &left, "", ""))
	if len(left.Items) > 0 {
		l.Errorf("%d enactments are left", len(left.Items))
	}
	l.wants("n1", "")
}

func (l life) expect(want string) {
	l.Helper()
	if got := l.phases(); got != want {
		l.Errorf("%s, want %s", got, want)
	}
}

func TestPolicy_TwoNodes_AppliedInTurnAndUndone(t *testing.T) {
	life{T: t, api: newWorld(t).api}.run()
}

// TestPolicyHandler_PolicyLost_WrittenOnce, with the cause and since when it is so, and no desired state
// is written again.
func TestPolicyHandler_PolicyLost_WrittenOnce(t *testing.T) {
	w := newWorld(t)
	l, policy := life{T: t, api: w.api}, newBlue()
	l.must(l.api.Create(t.Context(), newBlueNode("n1")))
	l.must(l.api.Create(t.Context(), policy))
	for _, current := range []string{small, large} {
		l.report("n1", current)
		l.once()
	}
	for n, cause := range []string{"no answer since 2026-01-02T03:04:05Z", "no answer since 2026-01-02T03:05:06Z"} {
		l.tell("n1", large, cause)
		w.api.take()
		l.once()
		want := [][]string{{"patch n1.blue/status", "patch blue/status"}, nil}[n]
		if got := w.api.take(); !slices.Equal(got, want) {
			t.Errorf("%s: the writes are %q, want %q", cause, got, want)
		}
	}
	object, row := w.enactment()
	failing := meta.FindStatusCondition(object.Status.Conditions, nmstatev1.FailingCondition)
	if row.Phase != nmstate.Failing || row.Reason != nmstatev1.ConfigurationLostReason || !strings.Contains(row.Message, "no answer since") ||
		failing == nil || !row.Since.Equal(failing.LastTransitionTime.Time) {
		t.Errorf("the enactment is %s %s since %s: %s", row.Phase, row.Reason, row.Since, row.Message)
	}
	l.must(l.api.Get(t.Context(), policy))
	degraded := meta.FindStatusCondition(policy.Status.Conditions, nmstatev1.DegradedCondition)
	if degraded == nil || degraded.Reason != nmstatev1.ConfigurationLostReason ||
		!strings.Contains(degraded.Message, "n1: since "+row.Since.UTC().Format(time.RFC3339)) {
		t.Errorf("the policy is Degraded: %+v", degraded)
	}
}

// errInterrupted is the end of a handler at a write.
var errInterrupted = errors.New("interrupted")

// interruption is an API for handlers that end at one of their writes, which has no effect.
type interruption struct {
	API
	at int
	// writes are those that were asked for, and over is true from the end on.
	writes int
	over   bool
}

func (i *interruption) write(request func() error) error {
	if i.over {
		return errInterrupted
	}
	if i.writes++; i.writes != i.at {
		return request()
	}
	i.over = true
	return errInterrupted
}

func (i *interruption) Create(ctx context.Context, object kube.Object) error {
	return i.write(func() error { return i.API.Create(ctx, object) })
}

func (i *interruption) Patch(ctx context.Context, object kube.Object, kind types.PatchType, data []byte, subresource ...string) error {
	return i.write(func() error { return i.API.Patch(ctx, object, kind, data, subresource...) })
}

func (i *interruption) Delete(ctx context.Context, object kube.Object, uid types.UID) error {
	return i.write(func() error { return i.API.Delete(ctx, object, uid) })
}

func TestPolicyHandler_CrashAtAnyWrite_SuccessorRecovers(t *testing.T) {
	for at, done := 1, false; !done; at++ {
		api := newWorld(t).api
		cut := &interruption{API: api, at: at}
		life{T: t, api: api, interrupted: cut}.run()
		if t.Failed() {
			t.Fatalf("interrupted at write %d", at)
		}
		done = cut.writes < at
	}
}

// TestEnactment_EarlierVersion_Replaced: policies with a dot in their name had another
// name of their enactments. The node keeps what it has, and begins nothing anew.
func TestEnactment_EarlierVersion_Replaced(t *testing.T) {
	w := newWorld(t)
	l, policy := life{T: t, api: w.api}, newBlue()
	policy.Name = "net.blue"
	l.must(l.api.Create(t.Context(), newBlueNode("n1")))
	l.must(l.api.Create(t.Context(), policy))
	for _, current := range []string{small, large} {
		l.report("n1", current)
		l.once()
	}
	present := newEnactment("n1.net.blue.parts-2")
	l.must(l.api.Get(t.Context(), present))
	former := newEnactment("n1.net.blue")
	former.Labels = present.Labels
	l.must(l.api.Create(t.Context(), former))
	former.Status = *present.Status.DeepCopy()
	former.Status.Slot = nil
	l.must(w.api.client.Status().Update(t.Context(), former))
	l.must(l.api.Delete(t.Context(), present, present.UID))
	state := w.state()
	w.api.take()

	l.once()
	if err := l.api.Get(t.Context(), former); !apierrors.IsNotFound(err) {
		t.Errorf("the former one: %v, want that it is not found", err)
	}
	next := newEnactment(present.Name)
	l.must(l.api.Get(t.Context(), next))
	if got := isTrue(next.Status.Conditions); got != nmstatev1.AvailableCondition || next.Status.Slot != nil {
		t.Errorf("the present one is %s with slot %+v", got, next.Status.Slot)
	}
	if string(next.Status.StateBefore.Raw) != string(present.Status.StateBefore.Raw) ||
		string(next.Status.AppliedState.Raw) != string(present.Status.AppliedState.Raw) {
		t.Errorf("the present one has %s before and %s applied", next.Status.StateBefore.Raw, next.Status.AppliedState.Raw)
	}
	for _, write := range w.api.take() {
		if write != "create "+present.Name && write != "patch "+present.Name+"/status" && write != "delete "+former.Name {
			t.Errorf("it also writes: %s", write)
		}
	}
	if now := w.state(); now.Generation != state.Generation {
		t.Errorf("the state of the node has generation %d, before %d", now.Generation, state.Generation)
	}
	l.must(l.api.Delete(t.Context(), policy, policy.UID))
	for range 3 {
		l.once()
		l.report("n1", small)
	}
	l.once()
	var left nmstatev1beta1.NodeNetworkConfigurationEnactmentList
	l.must(l.api.List(t.Context(), &left, "", ""))
	if len(left.Items) > 0 {
		t.Errorf("%d enactments are left", len(left.Items))
	}
}
