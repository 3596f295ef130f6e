// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestRTNLDump_Interrupted_Repeated(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name   string
		errs   []error // of one dump after the other, the last for all further ones
		want   error
		wanted int
	}{
		{"complete", []error{nil}, nil, 1},
		{"changed meanwhile", []error{netlink.ErrDumpInterrupted, netlink.ErrDumpInterrupted, nil}, nil, 3},
		{"wrapped", []error{fmt.Errorf("list: %w", netlink.ErrDumpInterrupted), nil}, nil, 2},
		{"a signal", []error{unix.EINTR, nil}, nil, 2},
		{"another error", []error{refused, nil}, refused, 1},
		{"changes without end", []error{netlink.ErrDumpInterrupted}, netlink.ErrDumpInterrupted, Attempts},
	} {
		t.Run(c.name, func(t *testing.T) {
			dumps := 0
			list, err := Complete(func() ([]int, error) {
				dumps++
				return []int{dumps}, c.errs[min(dumps, len(c.errs))-1]
			})
			if !errors.Is(err, c.want) || dumps != c.wanted || !slices.Equal(list, []int{c.wanted}) {
				t.Errorf("after %d dumps: %v, %v, want %v after %d", dumps, list, err, c.want, c.wanted)
			}
		})
	}
}
