// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// queueSize is how many bytes of messages the kernel keeps until they are
	// read. The creation of one pod's pair gives about 20 messages of 1.5 KiB; with the default
	// size (208 KiB) a wave of pods overflows the queue.
	queueSize = 8 << 20
	// batchSize bounds the messages that are judged together, in bytes.
	batchSize = 8 << 20
)

// listen judges messages of one kind until ctx ends, and sends a hint when a batch
// concerns this node. It calls before ahead of reading a batch.
func listen(ctx context.Context, protocol int, groups []uint32, hints chan<- struct{}, before func(),
	concerns func(messages []syscall.NetlinkMessage, whole bool) bool, log *slog.Logger,
) {
	file, err := subscribe(protocol, groups)
	if err != nil {
		log.Warn("can't listen for changes in the kernel; changes by hand are noticed later", "error", err)
		return
	}
	stop := context.AfterFunc(ctx, func() { file.Close() })
	defer func() {
		stop()
		file.Close()
	}()
	for ctx.Err() == nil {
		messages, whole, err := readBatch(file, before)
		if err != nil {
			if ctx.Err() == nil {
				log.Warn("can't read changes in the kernel; changes by hand are noticed later", "error", err)
			}
			return
		}
		// Missing messages may concern this node.
		if concerns(messages, whole) || !whole {
			select {
			case hints <- struct{}{}:
			default: // one is due already
			}
		}
	}
}

// pass calls do for each hint, at most once in hintEvery, until ctx ends.
func pass(ctx context.Context, hints <-chan struct{}, do func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hints:
			do()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(hintEvery):
		}
	}
}

// readBatch waits for messages and returns all that are queued. It calls before
// ahead of the first one. If the kernel has dropped messages, or more than batchSize
// are queued, the batch is not whole.
func readBatch(file *os.File, before func()) (messages []syscall.NetlinkMessage, whole bool, err error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, false, fmt.Errorf("read netlink messages: %w", err)
	}
	whole = true
	buffer := make([]byte, 1<<16)
	failed := conn.Read(func(fd uintptr) bool {
		before()
		read := 0
		for read < batchSize {
			n, failure := unix.Read(int(fd), buffer)
			switch {
			case errors.Is(failure, unix.EINTR):
				continue
			case errors.Is(failure, unix.ENOBUFS):
				whole, read = false, read+1
				continue
			case errors.Is(failure, unix.EAGAIN):
				return read > 0
			case failure != nil:
				err = failure
				return true
			}
			read += n
			// The messages refer to what they were parsed from, and there may be thousands.
			parsed, failure := syscall.ParseNetlinkMessage(bytes.Clone(buffer[:n]))
			messages, whole = append(messages, parsed...), whole && failure == nil
		}
		whole = false
		return true
	})
	return messages, whole, errors.Join(failed, err)
}

// subscribe opens a socket in the network namespace of the calling thread.
func subscribe(protocol int, groups []uint32) (*os.File, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	file := os.NewFile(uintptr(socket), "netlink")
	err = unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	for _, group := range groups {
		err = errors.Join(err, unix.SetsockoptInt(socket, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(group)))
	}
	err = errors.Join(err, unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, queueSize))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to netlink messages: %w", err), file.Close())
	}
	return file, nil
}
