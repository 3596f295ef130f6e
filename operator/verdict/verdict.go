// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verdict has the type for "may this object be used, and if not, why": the result of
// checks and plans, which becomes the condition Ready. It is pure.
package verdict

import "github.com/alioth-net/alioth/api/v1alpha1"

// Outcome is the kind of a verdict.
type Outcome uint8

const (
	// Refused objects can't be used until somebody changes them, or another object.
	Refused Outcome = iota
	// Waiting objects become ready by themselves.
	Waiting
	// Gone objects are being deleted.
	Gone
	// Ready objects can be used.
	Ready
)

// Verdict is the outcome of a check with the reason and the message of the condition. The zero
// value refuses, so that a plan that decides nothing admits nothing.
type Verdict struct {
	Outcome         Outcome
	Reason, Message string
}

// Passed is the verdict of a check that finds nothing.
var Passed = Use("")

// Use returns the verdict that an object can be used.
func Use(message string) Verdict { return Verdict{Ready, v1alpha1.ReadyReason, message} }

// Refuse returns the verdict that an object can't be used.
func Refuse(reason, message string) Verdict { return Verdict{Refused, reason, message} }

// Wait returns the verdict that an object can't be used yet.
func Wait(reason, message string) Verdict { return Verdict{Waiting, reason, message} }

// Deleting returns the verdict on an object that is being deleted. The message tells what
// delays it.
func Deleting(message string) Verdict { return Verdict{Gone, v1alpha1.DeletingReason, message} }

// IsReady reports whether the object can be used.
func (v Verdict) IsReady() bool { return v.Outcome == Ready }
