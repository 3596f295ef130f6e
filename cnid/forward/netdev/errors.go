// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import "fmt"

// DeviceError reports that what concerns one device alone could not be made true: of a
// pod's host end, or of the node's own interface. Everything else of the hostdev.State has
// been applied, unless the error is joined with others that are no DeviceErrors.
type DeviceError struct {
	Ifindex int
	Err     error
}

// Error describes what failed.
func (e *DeviceError) Error() string { return fmt.Sprintf("device %d: %v", e.Ifindex, e.Err) }

// Unwrap returns the cause.
func (e *DeviceError) Unwrap() error { return e.Err }

// onDevice returns nil for no error, otherwise a *DeviceError.
func onDevice(ifindex int, err error) error {
	if err == nil {
		return nil
	}
	return &DeviceError{Ifindex: ifindex, Err: err}
}
