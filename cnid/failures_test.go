// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/decision"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestFailuresOfSingleDevicesAreToldFromThoseOfTheNode(t *testing.T) {
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

func TestAFailingDeviceFailsItsOwnADDOnly(t *testing.T) {
	s := newTestSyncer(t, alwaysSynced)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.finish(outcome{upTo: 5, failed: map[int]error{7: unix.EBUSY}})
	if err := s.settle(ended, 5, 7); !errors.Is(err, unix.EBUSY) {
		t.Errorf("the device's own: %v, want %v", err, unix.EBUSY)
	}
	if err := s.settle(ended, 5, 8); err != nil {
		t.Errorf("another's: %v", err)
	}
	if err := s.settle(ended, 5, 0); err != nil {
		t.Errorf("a DEL: %v", err)
	}
	if status := s.status(); !strings.Contains(status.Problem, unix.EBUSY.Error()) {
		t.Errorf("people are told %q", status.Problem)
	}
	s.finish(outcome{upTo: 5})
	if err := s.settle(ended, 5, 7); err != nil || s.status().Problem != "" {
		t.Errorf("once it is set up: %v, %q", err, s.status().Problem)
	}
}

func TestALostDeviceFailsItsADDAndIsNoReasonToTryAgain(t *testing.T) {
	s := newTestSyncer(t, alwaysSynced)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	last := outcome{upTo: 5, lost: []plan.Lost{{Record: journal.Record{Interface: journal.Interface{Device: journal.Device{HostIfindex: 7}}}, Reason: "10.10.1.10 is another's"}}}
	s.finish(last)
	if err := s.settle(ended, 5, 7); !errors.Is(err, decision.ErrLost) || !strings.Contains(err.Error(), "another's") {
		t.Errorf("its own: %v, want %v and why", err, decision.ErrLost)
	}
	if err := s.settle(ended, 5, 8); err != nil {
		t.Errorf("another's: %v", err)
	}
	if last.failure() != nil {
		t.Errorf("the pass counts as failed: %v", last.failure())
	}
}

func TestAClosedPortIsToldOnceForAsLongAsItIs(t *testing.T) {
	s := newTestSyncer(t, alwaysSynced)
	var told []string
	s.closed = func(c plan.ClosedPort) { told = append(told, c.Pod.Name) }
	one, two := plan.ClosedPort{Pod: journal.Pod{Name: "one"}}, plan.ClosedPort{Pod: journal.Pod{Name: "two"}}
	for _, last := range []outcome{
		{closed: []plan.ClosedPort{one}}, {closed: []plan.ClosedPort{one, two}}, {err: unix.EBUSY}, {closed: []plan.ClosedPort{one}}, {closed: []plan.ClosedPort{one, two}},
	} {
		s.tellClosed(last)
	}
	if want := []string{"one", "two", "two"}; !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
}

func TestSTATUSDoesNotFailForSingleDevices(t *testing.T) {
	s := newTestSyncer(t, alwaysSynced)
	s.finish(outcome{failed: map[int]error{7: unix.EBUSY}})
	s.failing = time.Now().Add(-2 * lasting)
	s.finish(outcome{failed: map[int]error{7: unix.EBUSY}})
	if err := s.Ready(); err != nil {
		t.Errorf("after failures of one device: %v", err)
	}
}
