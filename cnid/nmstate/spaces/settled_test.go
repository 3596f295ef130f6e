// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package spaces

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestSpaces_NamespaceNeverSettles_ChangeNotRefused: a pod may add and remove interfaces in its
// namespace without end, so that no list of them is ever consistent.
func TestSpaces_NamespaceNeverSettles_ChangeNotRefused(t *testing.T) {
	for _, err := range []error{nil, netlink.ErrDumpInterrupted, fmt.Errorf("list: %w", netlink.ErrDumpInterrupted)} {
		if got := settled(err); got != nil {
			t.Errorf("%v: %v, want the last list", err, got)
		}
	}
	if got := settled(unix.ENOMEM); !errors.Is(got, unix.ENOMEM) {
		t.Errorf("without a list: %v, want the error", got)
	}
}
