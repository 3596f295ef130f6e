// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestAnInterruptedDumpIsRepeated(t *testing.T) {
	for _, interrupted := range []error{netlink.ErrDumpInterrupted, unix.EINTR} {
		calls := 0
		got, err := dump(func() ([]int, error) {
			if calls++; calls < 4 {
				return []int{1}, interrupted
			}
			return []int{1, 2}, nil
		})
		if err != nil || len(got) != 2 || calls != 4 {
			t.Errorf("after %v: got %v, %v in %d calls", interrupted, got, err, calls)
		}
	}
}

func TestADumpThatStaysInterruptedIsAnErrorAndOthersAreNotRepeated(t *testing.T) {
	calls := 0
	_, err := dump(func() ([]int, error) { calls++; return nil, netlink.ErrDumpInterrupted })
	if !errors.Is(err, netlink.ErrDumpInterrupted) || calls != maxDumps {
		t.Errorf("got %v after %d calls", err, calls)
	}
	calls = 0
	_, err = dump(func() ([]int, error) { calls++; return nil, unix.EPERM })
	if !errors.Is(err, unix.EPERM) || calls != 1 {
		t.Errorf("got %v after %d calls", err, calls)
	}
}
