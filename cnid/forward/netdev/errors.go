// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import "fmt"

// DeviceError reports that the state of one device could not be applied. The device is a
// pod's host end, or the node's own interface. Everything else in the hostdev.State has been
// applied, unless the error is joined with errors of other types.
type DeviceError struct {
	Ifindex int
	Err     error
}

// Error names the device and the cause.
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
