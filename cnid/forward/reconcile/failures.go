// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

// apart moves errors that concern a single device to that device's index, and returns
// all others.
func apart(err error, devices map[int]error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return alone(err, devices)
	}
	var rest []error
	for _, part := range joined.Unwrap() {
		rest = append(rest, apart(part, devices))
	}
	if !slices.Contains(rest, nil) {
		return err // with the words that it puts between its parts
	}
	return errors.Join(rest...)
}

// alone is apart for an error that is not joined.
func alone(err error, devices map[int]error) error {
	var index int
	var program *datapath.AttachError
	var device *netdev.DeviceError
	switch {
	case errors.As(err, &program):
		index = program.Ifindex
	case errors.As(err, &device):
		index = device.Ifindex
	default:
		return err
	}
	devices[index] = errors.Join(devices[index], err)
	return nil
}

// together joins the errors of all devices; nil without errors.
func together(devices map[int]error) error {
	var list []error
	for _, index := range slices.Sorted(maps.Keys(devices)) {
		list = append(list, devices[index])
	}
	if err := errors.Join(list...); err != nil {
		return fmt.Errorf("%d device(s) could not be set up; their pods have no network: %w", len(list), err)
	}
	return nil
}
