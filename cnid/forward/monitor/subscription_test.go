// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"fmt"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

// TestMonitorBatch_QueuedMessages_AllIncluded creates as many devices as a large wave of pods does,
// and reads nothing meanwhile.
func TestMonitorBatch_QueuedMessages_AllIncluded(t *testing.T) {
	const pairs = 250
	space := testnet.New(t)
	var file *os.File
	testnet.In(t, space, func() (err error) {
		if file, err = subscribe(unix.NETLINK_ROUTE, []uint32{unix.RTNLGRP_LINK}); err != nil {
			return err
		}
		return createPairs(pairs)
	})
	t.Cleanup(func() { file.Close() })
	asked := 0
	messages, whole, err := readBatch(file, func() { asked++ })
	if err != nil || !whole || asked != 1 {
		t.Fatalf("whole %t, asked %d times, %v", whole, asked, err)
	}
	if len(messages) < 2*pairs {
		t.Errorf("%d messages for %d pairs of devices", len(messages), pairs)
	}
	for _, message := range messages {
		if kept := cap(message.Data); kept > 8<<10 {
			t.Fatalf("a message of %d bytes keeps %d bytes of memory", len(message.Data), kept)
		}
	}
}

func TestMonitorBatch_KernelDroppedMessages_MarkedIncomplete(t *testing.T) {
	space := testnet.New(t)
	var file *os.File
	testnet.In(t, space, func() (err error) {
		if file, err = subscribe(unix.NETLINK_ROUTE, []uint32{unix.RTNLGRP_LINK}); err != nil {
			return err
		}
		conn, err := file.SyscallConn()
		if err != nil {
			return err
		}
		var failure error
		err = conn.Control(func(fd uintptr) { failure = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4096) })
		if err != nil || failure != nil {
			return fmt.Errorf("%w, %w", err, failure)
		}
		return createPairs(50)
	})
	t.Cleanup(func() { file.Close() })
	if _, whole, err := readBatch(file, func() {}); err != nil || whole {
		t.Errorf("whole %t, %v", whole, err)
	}
}

// createPairs creates so many pairs of devices in the network namespace of the calling
// thread.
func createPairs(count int) error {
	for i := range count {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = fmt.Sprint("a", i)
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: fmt.Sprint("b", i)}); err != nil {
			return fmt.Errorf("create pair %d: %w", i, err)
		}
	}
	return nil
}
