// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

func TestHandler_Failures_PauseDoublesToOneMinute(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		begin := time.Now()
		w.fails = errors.New("the gateway is not reached")
		w.desire(jumbo)
		status := w.status(t)
		if got := has(t, status, nmstatev1.FailingCondition, metav1.ConditionTrue, nmstatev1.FailedToConfigureReason); !strings.Contains(got.Message, "gateway") {
			t.Errorf("message %q", got.Message)
		}
		has(t, status, nmstatev1.AvailableCondition, metav1.ConditionFalse, nmstatev1.FailedToConfigureReason)
		if status.ObservedDesiredGeneration != w.object.Generation || status.Refused != "" {
			t.Errorf("status %+v", status)
		}
		w.change(func() { w.mtus["eth1"] = 1400 }) // The pause goes on.
		time.Sleep(4 * time.Minute)                //nolint:forbidigo // virtual time
		var got []int
		for _, at := range w.tries {
			got = append(got, int(at.Sub(begin)/time.Second))
		}
		if want := []int{0, 1, 3, 7, 15, 31, 63, 123, 183}; !slices.Equal(got, want) {
			t.Errorf("attempts after %v seconds, want %v", got, want)
		}
		w.change(func() { w.fails = nil })
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		synctest.Wait()
		status = w.status(t)
		showsMTU(t, status, "eth1", 9000)
		has(t, status, nmstatev1.FailingCondition, metav1.ConditionFalse, nmstatev1.SuccessfullyConfiguredReason)
	})
}

// TestHandler_SameFailureAgain_NothingWritten: the report of a failure that lasts stays, with the time of
// the first one.
func TestHandler_SameFailureAgain_NothingWritten(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		cause := "the gateway"
		failing := func() string {
			return has(t, w.status(t), nmstatev1.FailingCondition, metav1.ConditionTrue, nmstatev1.FailedToConfigureReason).Message
		}
		w.failure = func() error {
			at := time.Now().UTC()
			w.lostChange = &transaction.Unrestored{At: at, Message: "eth1 is gone since " + at.Format(time.RFC3339)}
			return fmt.Errorf("%s does not answer since %s, asked from port :%d->53", cause, at.Format(time.RFC3339), len(w.tries))
		}
		w.desire(jumbo)
		first, tries := failing(), len(w.tries)
		w.change(func() { w.writes, w.warnings = nil, nil })
		time.Sleep(20 * time.Minute) //nolint:forbidigo // virtual time
		synctest.Wait()
		if len(w.tries) < tries+10 || len(w.writes)+len(w.warnings) > 0 || failing() != first {
			t.Errorf("%d tries wrote %d times, and told people %q; the message is %q, first %q", len(w.tries)-tries, len(w.writes), w.warnings, failing(), first)
		}
		w.change(func() { cause = "the name server" })
		time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time
		synctest.Wait()
		if !strings.Contains(failing(), "the name server does not answer") || len(w.writes) != 1 {
			t.Errorf("after another cause, with %d writes, the message is %q", len(w.writes), failing())
		}
	})
}

func TestHandler_APIServerDown_LastDesiredStateEnforced(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		w.desire(jumbo)
		w.change(func() { w.lost = true })
		w.change(func() {
			w.mtus["eth1"] = 1500
			w.mtus["eth0"] = 1400
		})
		if w.mtus["eth1"] != 9000 {
			t.Errorf("eth1 has MTU %d", w.mtus["eth1"])
		}
		time.Sleep(10 * time.Minute) //nolint:forbidigo // virtual time
		w.mu.Lock()
		w.lost = false
		w.mu.Unlock()
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		synctest.Wait()
		showsMTU(t, w.status(t), "eth0", 1400)
	})
}

func TestHandler_FirstReadFails_ObjectReportsError(t *testing.T) {
	w := newWorld()
	w.unreadable = errors.New("no buffer space available")
	run(t, w, func(t *testing.T) {
		status := w.status(t)
		has(t, status, nmstatev1.FailingCondition, metav1.ConditionTrue, nmstatev1.FailedToConfigureReason)
		if status.CurrentState != nil {
			t.Errorf("its current state is %s", status.CurrentState.Raw)
		}
	})
}

func TestHandler_ReadFails_LastStateKept(t *testing.T) {
	w := newWorld()
	run(t, w, func(t *testing.T) {
		w.desire(jumbo)
		w.change(func() { w.unreadable = errors.New("no buffer space available") })
		status := w.status(t)
		showsMTU(t, status, "eth1", 9000)
		has(t, status, nmstatev1.FailingCondition, metav1.ConditionTrue, nmstatev1.FailedToConfigureReason)
		w.change(func() { w.unreadable = nil })
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		synctest.Wait()
		has(t, w.status(t), nmstatev1.AvailableCondition, metav1.ConditionTrue, nmstatev1.SuccessfullyConfiguredReason)
	})
}

// TestHandlerOnce_Failure_CauseReturned is about a handler that follows nothing.
func TestHandlerOnce_Failure_CauseReturned(t *testing.T) {
	w := newWorld()
	cfg := w.config()
	cfg.Wanted = Ask(w, node)
	if _, err := New(cfg).Pass(t.Context()); err != nil || w.object == nil || len(w.object.OwnerReferences) != 1 {
		t.Fatalf("without an object: %v, made is %v", err, w.object)
	}
	for _, c := range []struct {
		name    string
		prepare func()
		want    error
	}{
		{"success", func() {}, nil},
		{"failure", func() { w.fails = fmt.Errorf("it: %w", errUnreached) }, errUnreached},
		{"refusal", func() { w.refuses = fmt.Errorf("it: %w", errUnreached) }, errUnreached},
		{"no API server", func() { w.lost = true }, errLost},
	} {
		w.ask(jumbo)
		c.prepare()
		if _, err := New(cfg).Pass(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
}

var errUnreached = errors.New("a gateway is not reached")
