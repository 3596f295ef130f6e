// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/enact"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// applied returns a world whose node n1 has the policy blue, and whose store has all objects.
func applied(t *testing.T) (*world, *nmstatev1.NodeNetworkConfigurationPolicy) {
	t.Helper()
	w, blue := newWorld(t), newBlue()
	l := life{T: t, api: w.api}
	w.must(w.api.Create(t.Context(), newBlueNode("n1")))
	w.must(w.api.Create(t.Context(), blue))
	l.report("n1", small)
	l.once()
	l.report("n1", large)
	l.once()
	w.sync()
	w.api.take()
	return w, blue
}

func TestPolicyUndo_PolicyStillInAPI_NotUndone(t *testing.T) {
	w, blue := applied(t)
	w.must(w.cfg.Store.Update(func(tx store.Tx) error {
		nmstate.DeletePolicy(tx, nmstate.Reference{Kind: nmstatev1.NodeNetworkConfigurationPolicyKind, Name: "blue"}, string(blue.UID))
		return nil
	}))
	h := NewHandler(w.cfg)
	again, err := h.Pass(t.Context(), "n1")
	if got := w.api.take(); err != nil || again != retryAfter || len(got) > 0 {
		t.Fatalf("a store that lacks a policy: again %v (%v), writes %q; want another pass and none", again, err, got)
	}
	w.must(w.api.Delete(t.Context(), blue, blue.UID))
	if again, err := h.Pass(t.Context(), "n1"); err != nil || again != 0 {
		t.Errorf("a policy that is gone: again %v (%v)", again, err)
	}
	if _, row := w.enactment(); row.Undoing == nil {
		t.Error("a policy that is gone is not undone")
	}
}

func TestPolicyPass_StaleRowsAfterWrite_NoHarm(t *testing.T) {
	w, blue := applied(t)
	w.must(w.api.Delete(t.Context(), blue, blue.UID))
	w.sync()
	h := NewHandler(w.cfg)
	if _, err := h.Pass(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	before, _ := w.enactment()
	w.api.take()
	if again, err := h.Pass(t.Context(), "n1"); err != nil || again != retryAfter {
		t.Errorf("again %v (%v), want another pass", again, err)
	}
	if after, _ := w.enactment(); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("writes %q", w.api.take())
	}
}

func TestPolicyPass_NodeMissing_NothingNeeded(t *testing.T) {
	w := newWorld(t)
	if again, err := NewHandler(w.cfg).Pass(t.Context(), "absent"); again != 0 || err != nil {
		t.Errorf("again %v (%v)", again, err)
	}
}

// TestSlotGrant_StaleRows_APIStateDecides has a store that is older than the first grant.
func TestSlotGrant_StaleRows_APIStateDecides(t *testing.T) {
	w := newWorld(t)
	l, handler, rollouts := life{T: t, api: w.api}, NewHandler(w.cfg), NewRollouts(w.cfg)
	w.must(w.api.Create(t.Context(), newBlue()))
	for _, node := range []string{"n1", "n2", "n3"} {
		w.must(w.api.Create(t.Context(), newBlueNode(node)))
		l.report(node, small)
	}
	w.sync()
	for _, node := range []string{"n1", "n2", "n3"} {
		if _, err := handler.Pass(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	w.sync()
	for range 3 {
		if _, err := rollouts.Pass(t.Context(), blue); err != nil {
			t.Fatal(err)
		}
	}
	var list nmstatev1beta1.NodeNetworkConfigurationEnactmentList
	w.must(w.api.List(t.Context(), &list, "", ""))
	var holders []string
	for _, item := range list.Items {
		if slot := item.Status.Slot; slot != nil {
			holders = append(holders, slot.Holder)
			if slot.PolicyUID != item.Status.Policy.UID || slot.Generation != 1 {
				t.Errorf("the slot %+v does not tell its policy and generation", slot)
			}
		}
	}
	if len(list.Items) != 3 || !slices.Equal(holders, []string{"n1"}) {
		t.Errorf("of %d enactments have a slot: %q; want n1 alone", len(list.Items), holders)
	}
}

// TestSlotGrant_NodeReturns_QueuedLast: its enactment was deleted, and the store has
// the policy from before.
func TestSlotGrant_NodeReturns_QueuedLast(t *testing.T) {
	w := newWorld(t)
	l, handler, rollouts := life{T: t, api: w.api}, NewHandler(w.cfg), NewRollouts(w.cfg)
	w.must(w.api.Create(t.Context(), newBlue()))
	for _, node := range []string{"n1", "n2"} {
		w.must(w.api.Create(t.Context(), newBlueNode(node)))
		l.report(node, small)
	}
	w.sync()
	for _, want := range []string{"n1", "n2"} {
		for _, node := range []string{"n1", "n2"} {
			if _, err := handler.Pass(t.Context(), node); err != nil {
				t.Fatal(err)
			}
		}
		w.sync()
		w.must(w.cfg.Store.Update(func(tx store.Tx) error {
			row := *nmstate.GetPolicy(tx, blue)
			row.LastSlot = ""
			return nmstate.PutPolicy(tx, &row)
		}))
		if _, err := rollouts.Pass(t.Context(), blue); err != nil {
			t.Fatal(err)
		}
		object := newEnactment(want + ".blue")
		w.must(w.api.Get(t.Context(), object))
		if object.Status.Slot == nil {
			t.Fatalf("%s has no slot", want)
		}
		w.must(w.api.Delete(t.Context(), object, object.UID))
		w.sync()
	}
}

func TestSlotWrite_StaleRow_NotWritten(t *testing.T) {
	w := newWorld(t)
	w.must(w.put(newRow()))
	_, old := w.enactment()
	next := old
	next.Overruled = "y"
	w.must(w.put(next))
	r := NewRollouts(w.cfg)
	if err := r.setSlot(t.Context(), &old, nmstate.Slot{Holder: "n1", Expires: w.now}); !isStale(err) {
		t.Errorf("a grant: %v, want that the row is old", err)
	}
	_, now := w.enactment()
	w.must(r.setSlot(t.Context(), &now, nmstate.Slot{Holder: "n1", Expires: w.now}))
	if _, now = w.enactment(); now.Slot.Holder != "n1" {
		t.Errorf("slot %+v", now.Slot)
	}
	w.must(r.setSlot(t.Context(), &now, enact.Ended(now.Slot)))
	if _, now = w.enactment(); now.Slot.Lives("n1", w.now.Add(-time.Second)) || now.Slot.Holder != "n1" || now.Overruled != "y" {
		t.Errorf("after the release: %+v", now)
	}
}

func TestPolicyStatus_BothKinds_Written(t *testing.T) {
	early := &nmstatev1.NodeNetConfPolicy{ObjectMeta: metav1.ObjectMeta{Name: "blue", UID: "early", Generation: 4}}
	today := newBlue()
	today.UID, today.Generation = "today", 4
	w := newWorld(t, early, today)
	for _, object := range []struct{ kind, uid string }{
		{nmstatev1.NodeNetConfPolicyKind, "early"}, {nmstatev1.NodeNetworkConfigurationPolicyKind, "today"},
	} {
		row := &nmstate.Policy{Meta: store.Meta{UID: object.uid, Generation: 4}}
		row.Spec.Kind, row.Spec.Name = object.kind, "blue"
		status := enact.Status{Condition: nmstatev1.DegradedCondition, Reason: nmstatev1.FailedToConfigureReason, Message: "n1 failed", Conflict: "eth1", Changing: 2}
		w.must(NewRollouts(w.cfg).putStatus(t.Context(), row, status, "n1"))
		w.api.take()
		w.must(NewRollouts(w.cfg).putStatus(t.Context(), row, status, "n1"))
		if got := w.api.take(); len(got) > 0 {
			t.Errorf("%s: what is there is written again: %q", object.kind, got)
		}
		row.UID = "another"
		if err := NewRollouts(w.cfg).putStatus(t.Context(), row, status, "n1"); !isStale(err) {
			t.Errorf("%s: the row of a predecessor: %v, want that it is old", object.kind, err)
		}
	}
	w.must(w.api.Get(t.Context(), early))
	w.must(w.api.Get(t.Context(), today))
	for kind, conditions := range map[string][]metav1.Condition{"early": early.Status.Conditions, "today": today.Status.Conditions} {
		is := meta.FindStatusCondition(conditions, nmstatev1.DegradedCondition)
		if got := isTrue(conditions); got != "DegradedConflict" || len(conditions) != 5 || is.Message != "n1 failed" || is.ObservedGeneration != 4 {
			t.Errorf("%s: conditions %+v", kind, conditions)
		}
	}
	if s := today.Status; s.UnavailableNodeCount != 2 || s.LastUnavailableNodeCountUpdate == nil || s.ObservedGeneration != 4 || s.LastSlot != "n1" ||
		early.Status.LastSlot != "n1" ||
		early.Status.ObservedGeneration != 4 {
		t.Errorf("status %+v", s)
	}
}

func TestEnactment_NodeMissing_Deleted(t *testing.T) {
	w, _ := applied(t)
	none := w.cfg
	none.Nodes = func(context.Context) ([]corev1.Node, error) { return nil, nil }
	if again, err := NewRollouts(none).Pass(t.Context(), blue); err != nil || again != retryAfter {
		t.Errorf("a list that lacks a node: again %v (%v), want another pass", again, err)
	}
	w.enactment() // is there still
	w.must(w.api.client.Delete(t.Context(), newBlueNode("n1")))
	if _, err := NewRollouts(w.cfg).Pass(t.Context(), blue); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Get(t.Context(), newEnactment("n1.blue")); !apierrors.IsNotFound(err) {
		t.Errorf("the enactment of a node that is gone: %v, want that it is not found", err)
	}
}

func TestPolicyHandler_ChangesAndFailures_Runs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, blue := applied(t)
		changed := make(chan struct{})
		var synced atomic.Bool
		var failing atomic.Int32
		w.api.setRefuse(func(request string) error {
			if request == "get n1" && failing.Add(-1) >= 0 {
				return errors.New("out of order")
			}
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			NewHandler(w.cfg).Run(ctx, "n1", func() (bool, <-chan struct{}) {
				if synced.Load() {
					return true, nil
				}
				return false, changed
			})
		}()
		w.must(w.api.Delete(ctx, blue, blue.UID))
		w.sync()
		w.api.take()
		synctest.Wait()
		if got := w.api.take(); len(got) > 0 {
			t.Errorf("before the store is synced: %q", got)
		}
		failing.Store(3)
		synced.Store(true)
		close(changed)
		// Time goes on once all wait for it: each pause ends in turn.
		for object, _ := w.enactment(); object.Status.Undoing == nil; object, _ = w.enactment() {
			<-time.After(firstPause)
		}
		if left := failing.Load(); left > 0 {
			t.Errorf("%d failures are left: a pass was made without its node", left)
		}
		synctest.Wait() // the pass ends
		life{T: t, api: w.api}.report("n1", small)
		w.sync()
		synctest.Wait()
		if err := w.api.Get(ctx, newEnactment("n1.blue")); !apierrors.IsNotFound(err) {
			t.Errorf("after the state was reported: %v, want that the enactment is over", err)
		}
		stop()
		<-ended
	})
}

func TestPolicyOnce_KindMissing_Named(t *testing.T) {
	w := newWorld(t)
	w.api.setRefuse(func(request string) error {
		if strings.Contains(request, "NodeNetConfPolicyList") {
			return apierrors.NewNotFound(schema.GroupResource{}, "")
		}
		return nil
	})
	if err := Once(t.Context(), w.cfg, nil); !errors.Is(err, errNoKind) || !strings.Contains(err.Error(), nmstatev1.NodeNetConfPolicyKind) {
		t.Errorf("error %v", err)
	}
}

func TestPolicyOnce_ContextCanceled_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, blue := applied(t)
		w.must(w.api.Delete(t.Context(), blue, blue.UID))
		ctx, stop := context.WithCancel(t.Context())
		tries := 0
		w.api.setRefuse(func(request string) error {
			if !strings.HasPrefix(request, "patch") {
				return nil
			}
			if tries++; tries == 3 {
				stop()
			}
			return apierrors.NewConflict(schema.GroupResource{}, "", errors.New("another writer"))
		})
		if err := Once(ctx, w.cfg, []string{"n1"}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

// TestPolicyPass_KernelStateBefore_Kept: somebody has changed the MTU, and the report of that is
// under way when the policy gets its slot.
func TestPolicyPass_KernelStateBefore_Kept(t *testing.T) {
	for name, c := range map[string]struct {
		unreadable error
		want       int
	}{"the kernel": {nil, 1400}, "the report, if the kernel can't be read": {errors.New("a change is open"), 1500}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			l := life{T: t, api: w.api}
			w.must(w.api.Create(t.Context(), newBlueNode("n1")))
			w.must(w.api.Create(t.Context(), newBlue()))
			l.report("n1", small)
			reads := 0
			w.cfg.Current = func(context.Context) (map[string]any, error) {
				reads++
				return mtu("eth1", 1400), c.unreadable
			}
			for range 2 { // The first pass asks for a slot, and the second one has it.
				w.sync()
				h := NewHandler(w.cfg)
				if _, err := h.Pass(t.Context(), "n1"); err != nil {
					t.Fatal(err)
				}
				w.sync()
				_, err := NewRollouts(w.cfg).Pass(t.Context(), blue)
				w.must(err)
			}
			_, row := w.enactment()
			before, err := json.Marshal(row.Before)
			w.must(err)
			if !strings.Contains(string(before), fmt.Sprintf(`"mtu":%d`, c.want)) || reads != 1 {
				t.Errorf("the kernel was read %d times; the state before is %s", reads, before)
			}
		})
	}
}
