// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"fmt"

	"github.com/alioth-net/alioth/store"
)

// Retry is the change that may let a refused request succeed.
type Retry int

const (
	// WhenSubnetsChange waits for a Subnet, a VPC or a network outside of every VPC to
	// be created or changed, or to become Ready.
	WhenSubnetsChange Retry = iota
	// WhenReleased waits for an address to be released, or a Subnet to grow.
	WhenReleased
)

// Error is a refusal. Its text is for the creator of the pod, and has the cause and
// the remedy. It depends on the cause alone, so that an unchanged cause gives an
// unchanged text.
type Error struct {
	// Reason is one of the reasons of package v1alpha1.
	Reason  string
	Message string
	Retry   Retry
	// Holder has the requested address, if it is taken.
	Holder *store.Holder
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

func refuse(reason string, retry Retry, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...), Retry: retry}
}
