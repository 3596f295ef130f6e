// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
)

// hasTCX reports whether the kernel has links to devices; where it has none,
// filters stand in for them.
func hasTCX(t *testing.T) bool {
	t.Helper()
	const loopback = 1 // its index in every namespace
	_, err := link.QueryPrograms(link.QueryOptions{Target: loopback, Attach: ebpf.AttachTCXIngress})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
		return false
	}
	bpftest.Must(t, err)
	return true
}

// pinnedLinks returns the number of links that a node pins, with an uplink or without.
func pinnedLinks(t *testing.T, uplink bool) int {
	t.Helper()
	if !hasTCX(t) {
		return socketLinkCount()
	}
	if !uplink {
		return len(hook.LinkNames()) - 2
	}
	return len(hook.LinkNames())
}

// socketLinkCount returns the number of links at the cgroup root; the others are on four devices.
func socketLinkCount() int { return len(hook.LinkNames()) - 4 }
