// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import "fmt"

// AttachError says that an interface could not be given a program, for the
// most part because its device is gone. Everything else of the State has been
// applied; the error may be joined with others of its kind.
type AttachError struct {
	Ifindex int
	Program string
	Err     error
}

// Error describes what could not be attached and why.
func (e *AttachError) Error() string {
	return fmt.Sprintf("attach %s to device %d: %v", e.Program, e.Ifindex, e.Err)
}

// Unwrap returns the cause.
func (e *AttachError) Unwrap() error { return e.Err }
