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

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/enact"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// put writes enactments as a pass does.
func (w *world) put(list ...nmstate.Enactment) error {
	_, err := NewHandler(w.cfg).putAll(w.t.Context(), list)
	return err
}

func TestEnactmentWrite_EachRowField_Included(t *testing.T) {
	w := newWorld(t)
	w.must(w.put(newRow()))
	object, row := w.enactment()
	want := newRow()
	want.Since = w.now
	if diff := cmp.Diff(want, row, cmpopts.IgnoreFields(nmstate.Enactment{}, "Meta")); diff != "" {
		t.Errorf("the row that is read is another than the one that was written:\n%s", diff)
	}
	if object.Labels[nmstatev1.NodeLabel] != "n1" || object.Labels[nmstatev1.PolicyLabel] != "blue" {
		t.Errorf("labels %v", object.Labels)
	}
	var is []string
	for _, c := range object.Status.Conditions {
		is = append(is, c.Type+"="+string(c.Status))
		if c.ObservedGeneration != 3 || c.Reason == "" || (c.Message != "") != (c.Status == metav1.ConditionTrue) {
			t.Errorf("condition %+v", c)
		}
	}
	slices.Sort(is)
	if got := strings.Join(is, " "); got != "Aborted=False Available=False Failing=False Pending=True Progressing=False" {
		t.Errorf("conditions %s", got)
	}
}

func TestEnactmentWrite_Field_ReplacedAsWhole(t *testing.T) {
	w := newWorld(t)
	w.must(w.put(newRow()))
	first, row := w.enactment()
	w.must(NewRollouts(w.cfg).setSlot(t.Context(), &row, nmstate.Slot{Holder: "n1", Expires: w.now.Add(time.Minute), PolicyUID: "uid-blue", Generation: 3}))
	w.now = w.now.Add(time.Hour)
	_, row = w.enactment()
	row.Phase, row.Reason, row.Message = nmstate.Progressing, nmstatev1.ConfigurationProgressingReason, "it changes"
	row.Applied, row.Before, row.Undoing, row.Captured, row.Overruled, row.Keep = map[string]any{}, nil, nil, nil, "", false
	slot := row.Slot
	row.Slot = nmstate.Slot{}
	w.must(w.put(row))
	object, now := w.enactment()
	row.Since = w.now
	if diff := cmp.Diff(row, now, cmpopts.IgnoreFields(nmstate.Enactment{}, "Meta", "Slot")); diff != "" {
		t.Errorf("the row that is read is another than the one that was written:\n%s", diff)
	}
	if now.Slot != slot || slot.Holder != "n1" {
		t.Errorf("the slot is %+v, want %+v", now.Slot, slot)
	}
	if !object.Status.DesiredStateMetaInfo.Time.Equal(first.Status.DesiredStateMetaInfo.Time) {
		t.Error("the time of a desired state changes without the state")
	}
	for kind, moved := range map[string]bool{nmstatev1.ProgressingCondition: true, nmstatev1.PendingCondition: true, nmstatev1.AvailableCondition: false} {
		before := meta.FindStatusCondition(first.Status.Conditions, kind).LastTransitionTime
		if after := meta.FindStatusCondition(object.Status.Conditions, kind).LastTransitionTime; after.Equal(&before) == moved {
			t.Errorf("%s: transition at %v, before %v", kind, after, before)
		}
	}
}

func TestEnactmentWrite_StaleRow_NotWritten(t *testing.T) {
	w := newWorld(t)
	w.must(w.put(newRow()))
	_, old := w.enactment()
	next := old
	next.Overruled = "y"
	w.must(w.put(next))
	old.Overruled = "z"
	if err := w.put(old); !isStale(err) {
		t.Errorf("error %v, want that the row is old", err)
	}
	if err := w.put(newRow()); !isStale(err) {
		t.Errorf("a second creation: %v, want that the row is old", err)
	}
	old.UID = "another"
	if err := w.put(old); !isStale(err) {
		t.Errorf("the row of a predecessor: %v, want that it is old", err)
	}
	if _, now := w.enactment(); now.Overruled != "y" {
		t.Errorf("overruled %q", now.Overruled)
	}
}

func TestEnactmentWrite_StatusMissing_Adopted(t *testing.T) {
	w := newWorld(t, newEnactment("n1.blue"))
	w.must(w.put(newRow()))
	object, row := w.enactment()
	if object.Labels[nmstatev1.NodeLabel] != "n1" || row.PolicyUID != "uid-blue" {
		t.Errorf("labels %v, row %+v", object.Labels, row)
	}
	other := newRow()
	other.Policy = nmstate.Reference{Kind: nmstatev1.NodeNetConfPolicyKind, Name: "another"}
	if err := w.put(other); err == nil || isStale(err) || !strings.Contains(err.Error(), blue.String()) {
		t.Errorf("a name that is taken: %v, want the policy whose it is", err)
	}
}

// TestEnactmentWrite_OneFails_OthersNotDelayed: a node has two policies, and the API server
// refuses all writes of the enactment of one of them, from the beginning or once the node has
// both. The other one is applied, changed and undone as without that.
func TestEnactmentWrite_OneFails_OthersNotDelayed(t *testing.T) {
	for _, later := range []bool{false, true} {
		w := newWorld(t)
		l, handler, rollouts := life{T: t, api: w.api}, NewHandler(w.cfg), NewRollouts(w.cfg)
		red := newBlue()
		red.Name, red.Spec.DesiredState = "red", raw(`{"interfaces":[{"name":"eth2","mtu":9000}]}`)
		blue := newBlue()
		w.must(w.api.Create(t.Context(), newBlueNode("n1")))
		w.must(w.api.Create(t.Context(), blue))
		w.must(w.api.Create(t.Context(), red))
		refuse := func(request string) error {
			if strings.HasPrefix(request, "patch n1.blue") || strings.HasPrefix(request, "create n1.blue") {
				return errors.New("nobody may write it")
			}
			return nil
		}
		if !later {
			w.api.setRefuse(refuse)
		}
		state := func(mtu int) string {
			return fmt.Sprintf(`{"interfaces":[{"name":"eth1","type":"ethernet","state":"up","mtu":1500},{"name":"eth2","type":"ethernet","state":"up","mtu":%d}]}`, mtu)
		}
		rounds := func(mtu int) {
			for range 6 {
				l.report("n1", state(mtu))
				w.sync()
				_, _ = handler.Pass(t.Context(), "n1")
				w.sync()
				for _, name := range []string{"red", "blue"} {
					_, _ = rollouts.Pass(t.Context(), nmstate.Reference{Kind: nmstatev1.NodeNetworkConfigurationPolicyKind, Name: name})
				}
			}
		}
		hasRed := func(want bool) {
			t.Helper()
			got := w.state().Spec.DesiredState
			if (got != nil && strings.Contains(string(got.Raw), "eth2")) != want {
				t.Errorf("later %v: the desired state is %s; eth2 in it: want %v", later, got, want)
			}
		}
		// A policy that comes first waits for its slot, and its node for it: both begin alike.
		red.Spec.Priority = 1
		w.must(w.api.client.Update(t.Context(), red))
		rounds(1500)
		hasRed(true)
		if later {
			w.api.setRefuse(refuse)
			w.must(w.api.Get(t.Context(), blue))
			blue.Generation++
			blue.Spec.DesiredState = raw(`{"interfaces":[{"name":"eth1","mtu":1400}]}`)
			w.must(w.api.client.Update(t.Context(), blue))
		}
		w.must(w.api.Delete(t.Context(), red, red.UID))
		rounds(9000)
		rounds(1500)
		hasRed(false)
		if err := w.api.Get(t.Context(), newEnactment("n1.red")); !apierrors.IsNotFound(err) {
			t.Errorf("later %v: the enactment of the policy that ended: %v", later, err)
		}
	}
}

func TestEnactmentWrite_NoAnswer_NothingFollows(t *testing.T) {
	w := newWorld(t)
	w.api.setRefuse(func(request string) error {
		if strings.HasPrefix(request, "patch") {
			return context.DeadlineExceeded
		}
		return nil
	})
	second := newRow()
	second.Name = "n1.red"
	if err := w.put(newRow(), second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if got := w.api.take(); !slices.Equal(got, []string{"create n1.blue", "patch n1.blue/status"}) {
		t.Errorf("writes %q", got)
	}
}

func TestDesiredStateWrite_ConcurrentManualChange_NotOverwritten(t *testing.T) {
	state := newState("n1")
	state.Spec.DesiredState, state.Spec.PolicyState = raw(`{"interfaces":[],"dns-resolver":{"config":{}}}`), raw(`{"routes":{}}`)
	state.Spec.Reach, state.Spec.PolicyReach = []nmstatev1.ReachTarget{"hand"}, []nmstatev1.ReachTarget{"former"}
	w := newWorld(t, state)
	h := NewHandler(w.cfg)
	desired := &enact.Desired{
		State:           mtu("eth1", 9000),
		Reach:           []string{"storage:443"},
		Parts:           []nmstate.Part{{Paths: []string{"interfaces[eth1]"}, Reach: []string{"storage:443"}}},
		ResourceVersion: w.state().ResourceVersion,
	}
	w.must(h.putDesired(t.Context(), "n1", desired))
	now := w.state()
	if !isDocument(desired.State, now.Spec.DesiredState) || now.Spec.PolicyState != nil ||
		!slices.Equal(now.Spec.Reach, []nmstatev1.ReachTarget{"hand"}) || !slices.Equal(now.Spec.PolicyReach, []nmstatev1.ReachTarget{"storage:443"}) ||
		len(now.Spec.Parts) != 1 || !slices.Equal(now.Spec.Parts[0].Reach, []string{"storage:443"}) {
		t.Errorf("specification %s", now.Spec.DesiredState.Raw)
	}
	w.must(w.api.client.Update(t.Context(), func() *nmstatev1beta1.NodeNetworkState {
		now.Spec.DesiredState = raw(`{"by":"hand"}`)
		return now
	}()))
	if err := h.putDesired(t.Context(), "n1", desired); !isStale(err) {
		t.Errorf("error %v, want that the state is newer", err)
	}
	if got := w.state().Spec.DesiredState; string(got.Raw) != `{"by":"hand"}` {
		t.Errorf("what was set by hand is lost: %s", got.Raw)
	}
}

func TestOwnersWrite_StateHandlerFields_Kept(t *testing.T) {
	state := newState("n1")
	state.UID = "uid-n1"
	state.Status.Refused = "theirs"
	state.Status.Conditions = []metav1.Condition{{Type: nmstatev1.FailingCondition, Status: metav1.ConditionTrue, Reason: "Theirs"}}
	w := newWorld(t, state)
	h, row := NewHandler(w.cfg), &nmstate.State{Name: "n1", Meta: store.Meta{UID: "uid-n1"}}
	changes := enact.Changes{Owners: enact.Owners{
		List: []policy.Owner{{Path: "interfaces[eth1]", Owner: blue.String()}}, More: 2, Conflict: "eth1 is taken",
	}}
	w.must(h.write(t.Context(), row, changes))
	now := w.state()
	if len(now.Status.Owners) != 1 || now.Status.Owners[0].Owner != blue.String() || now.Status.MoreOwners != 2 || now.Status.Refused != "theirs" {
		t.Errorf("status %+v", now.Status)
	}
	conflict := meta.FindStatusCondition(now.Status.Conditions, nmstatev1.ConflictCondition)
	if conflict == nil || conflict.Status != metav1.ConditionTrue || conflict.Message != "eth1 is taken" || len(now.Status.Conditions) != 2 {
		t.Errorf("conditions %+v", now.Status.Conditions)
	}
	w.api.take()
	w.must(h.write(t.Context(), row, changes))
	w.must(NewHandler(w.cfg).write(t.Context(), row, changes))
	if got := w.api.take(); len(got) > 0 {
		t.Errorf("what is there is written again: %q", got)
	}
	w.must(h.write(t.Context(), row, enact.Changes{}))
	now = w.state()
	if len(now.Status.Owners) != 0 || now.Status.MoreOwners != 0 || meta.IsStatusConditionTrue(now.Status.Conditions, nmstatev1.ConflictCondition) {
		t.Errorf("without owners: %+v", now.Status)
	}
	row.UID = "another"
	if err := h.write(t.Context(), row, changes); !isStale(err) {
		t.Errorf("the row of a predecessor: %v, want that it is old", err)
	}
}

func TestEnactment_Finished_DeletedOnce(t *testing.T) {
	w := newWorld(t)
	w.must(w.put(newRow()))
	_, row := w.enactment()
	other := row
	other.UID = "another"
	h := NewHandler(w.cfg)
	if err := h.write(t.Context(), nil, enact.Changes{Delete: []*nmstate.Enactment{&other}}); !isStale(err) {
		t.Errorf("a successor is deleted: %v", err)
	}
	w.must(h.write(t.Context(), nil, enact.Changes{Delete: []*nmstate.Enactment{&row}}))
	w.must(h.write(t.Context(), nil, enact.Changes{Delete: []*nmstate.Enactment{&row}}))
	var list nmstatev1beta1.NodeNetworkConfigurationEnactmentList
	if w.must(w.api.List(t.Context(), &list, "", "")); len(list.Items) != 0 {
		t.Errorf("%d enactments are left", len(list.Items))
	}
}

// TestEnactmentMessage_Long_Bounded: admission refuses a longer one of a daemon.
func TestEnactmentMessage_Long_Bounded(t *testing.T) {
	row := &nmstate.Enactment{Phase: nmstate.Failing, Reason: "R", Message: strings.Repeat("ä", 40<<10) + "\n"}
	for _, c := range enactmentConditions(row, nil, metav1.Now()) {
		if len(c.Message) > quote.MaxMessage {
			t.Errorf("%s has a message of %d bytes", c.Type, len(c.Message))
		}
	}
	for _, c := range withConflict(nil, row.Message, 1, metav1.Now()) {
		if len(c.Message) > quote.MaxMessage {
			t.Errorf("%s has a message of %d bytes", c.Type, len(c.Message))
		}
	}
}

var _ API = (*kube.Client)(nil)
