// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestReconcileErrors_EachKind_DeviceAndNodeSeparated(t *testing.T) {
	route := &netdev.DeviceError{Ifindex: 5, Err: unix.EINVAL}
	program := &datapath.AttachError{Ifindex: 5, Program: "from_pod", Err: unix.EBUSY}
	other := &datapath.AttachError{Ifindex: 6, Program: "to_pod", Err: unix.EPERM}
	invalid := fmt.Errorf("%w: %w", state.ErrInvalid, errors.New("given twice"))
	cases := []struct {
		name    string
		err     error
		devices []int
		rest    error
	}{
		{"none", nil, nil, nil},
		{"one device", route, []int{5}, nil},
		{"joined, and joined again", errors.Join(errors.Join(route, other), errors.Join(program)), []int{5, 6}, nil},
		{"the node as a whole", errNoUnderlay, nil, errNoUnderlay},
		{"both", errors.Join(errNoUnderlay, program), []int{5}, errNoUnderlay},
		{"a contradiction in the state", invalid, nil, state.ErrInvalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			devices := map[int]error{}
			rest := apart(c.err, devices)
			if (rest != nil) != (c.rest != nil) || !errors.Is(rest, c.rest) {
				t.Errorf("rest %v, want %v", rest, c.rest)
			}
			if len(devices) != len(c.devices) {
				t.Errorf("devices %v, want %v", devices, c.devices)
			}
			for _, index := range c.devices {
				if devices[index] == nil || !strings.Contains(together(devices).Error(), devices[index].Error()) {
					t.Errorf("device %d: %v; all: %v", index, devices[index], together(devices))
				}
			}
		})
	}
	if rest := apart(invalid, map[int]error{}); rest.Error() != invalid.Error() {
		t.Errorf("%q became %q", invalid, rest)
	}
}
