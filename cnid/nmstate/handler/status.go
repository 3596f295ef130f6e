// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// report holds the contents of the status of the object.
type report struct {
	// uid and generation identify the object with the reported desired state. With a uid of ""
	// the status has the current state alone.
	uid        types.UID
	generation int64
	unmanaged  bool
	// current is the current state in JSON, "" if it can't be read.
	current string
	// hash is the hash of the desired state, "" without a state.
	hash string
	// fault is why the node does not have the desired state, "" if it does.
	fault   string
	refused bool
	// failures are the parts that the node does not have.
	failures []v1beta1.Failure
	foreign  foreign
	// unrestored is the last change that was undone without the whole state before.
	unrestored transaction.Unrestored
}

// equal reports whether two reports say the same.
func (r report) equal(other report) bool { return reflect.DeepEqual(r, other) }

// reportOf is the report after an attempt to enforce the desired state.
func (h *Handler) reportOf(current string) report {
	r := report{
		uid: h.wanted.UID, generation: h.wanted.Generation, current: current, hash: h.hash, unrestored: h.lost(),
	}
	refused, fault := h.fault()
	if r.refused = refused; fault != nil {
		r.fault = fault.Error()
	}
	for _, path := range h.paths {
		last := h.last[path]
		r.foreign = r.foreign.and(last.foreign)
		if last.err != nil && h.blind.err == nil {
			r.failures = append(
				r.failures,
				v1beta1.Failure{Path: path, Message: quote.Bounded(last.err.Error(), v1beta1.MaxFailure)},
			)
		}
	}
	return r
}

// lost is the last change that was undone without the whole state before, the zero value for
// none. People are told once.
func (h *Handler) lost() transaction.Unrestored {
	lost, err := h.cfg.Engine.Unrestored()
	if err != nil {
		h.cfg.Log.Warn("can't read how the last change was undone", "error", err)
		return h.unrestored
	}
	if lost == nil {
		h.unrestored = transaction.Unrestored{}
		return h.unrestored
	}
	// A later try that failed in the same way says nothing new.
	if lost.GivenUp != h.unrestored.GivenUp || !quote.SameCause(lost.Message, h.unrestored.Message) {
		h.unrestored = *lost
		h.cfg.Log.Error("a change was undone without the whole state before", "cause", lost.Message)
		if h.cfg.Events != nil {
			h.cfg.Events.NotRestored(lost.Message)
		}
	}
	return h.unrestored
}

// ofNew is the report for an object that was just made, and desires nothing. What became of
// a desired state is not its matter.
func (r report) ofNew(object *v1beta1.NodeNetworkState) report {
	made := report{uid: object.UID, generation: object.Generation, current: r.current}
	if r.hash == "" && !r.refused {
		made.fault = r.fault
	}
	return made
}

// into changes the handler's part of a status. Others have the rest.
func (r report) into(object *v1beta1.NodeNetworkState) {
	status := &object.Status
	if r.unmanaged {
		r.condition(
			status,
			nmstatev1.AvailableCondition,
			false,
			nmstatev1.UnmanagedReason,
			"spec.managed is false: nothing is enforced, and nothing reported",
		)
		meta.RemoveStatusCondition(&status.Conditions, nmstatev1.FailingCondition)
		meta.RemoveStatusCondition(&status.Conditions, nmstatev1.ForeignCondition)
		meta.RemoveStatusCondition(&status.Conditions, nmstatev1.NotRestoredCondition)
		return
	}
	status.HandlerNmstateVersion = v1beta1.HandlerVersion
	if r.current != "" {
		now := metav1.Now()
		status.CurrentState, status.LastSuccessfulUpdateTime = &runtime.RawExtension{Raw: []byte(r.current)}, &now
	}
	if r.uid == "" {
		return
	}
	status.ObservedDesiredGeneration, status.DesiredStateHash = r.generation, r.hash
	status.Refused = ""
	if r.refused {
		status.Refused = quote.Bounded(r.fault, v1beta1.MaxRefused)
	}
	status.Failures = r.failures
	r.conditions(status)
}

func (r report) conditions(status *v1beta1.NodeNetworkStateStatus) {
	reason, message := nmstatev1.SuccessfullyConfiguredReason, "the node has the desired state"
	switch {
	case r.refused:
		reason, message = nmstatev1.RefusedReason, r.fault
	case r.fault != "":
		reason, message = nmstatev1.FailedToConfigureReason, r.fault
	case r.hash == "":
		message = "nothing is desired"
	}
	r.condition(status, nmstatev1.AvailableCondition, r.fault == "", reason, message)
	r.condition(status, nmstatev1.FailingCondition, r.fault != "", reason, message)
	if r.foreign == (foreign{}) {
		meta.RemoveStatusCondition(&status.Conditions, nmstatev1.ForeignCondition)
	} else {
		r.condition(status, nmstatev1.ForeignCondition, true, r.foreign.reason, r.foreign.message())
	}
	switch {
	case r.unrestored == (transaction.Unrestored{}):
		meta.RemoveStatusCondition(&status.Conditions, nmstatev1.NotRestoredCondition)
	case r.unrestored.GivenUp:
		r.condition(status, nmstatev1.NotRestoredCondition, true, nmstatev1.GivenUpReason, r.unrestored.Message)
	default:
		r.condition(status, nmstatev1.NotRestoredCondition, true, nmstatev1.IncompleteReason, r.unrestored.Message)
	}
}

// condition sets a condition, which keeps the time of its last transition.
func (r report) condition(status *v1beta1.NodeNetworkStateStatus, kind string, is bool, reason, message string) {
	value := metav1.ConditionFalse
	if is {
		value = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: quote.Message(message), ObservedGeneration: r.generation,
	})
}
