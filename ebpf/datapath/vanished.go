// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// vanished lists devices that have left the network namespace. Filters are removed with
// their device, and the index of a device can be used again by one without filters, so
// nothing that is stored about a device may outlive it.
type vanished struct {
	socket int
	buffer []byte
}

// watchVanished starts to note the devices that leave the caller's namespace.
func watchVanished() (*vanished, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open socket for events of devices: %w", err)
	}
	// The filter first, so that no other message is ever queued.
	err = errors.Join(
		unix.SetsockoptSockFprog(socket, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, onlyMessages(unix.RTM_DELLINK)),
		unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_LINK}),
	)
	if err != nil {
		unix.Close(socket)
		return nil, fmt.Errorf("listen for events of devices: %w", err)
	}
	return &vanished{socket: socket, buffer: make([]byte, 1<<16)}, nil
}

// onlyMessages makes a socket filter that keeps netlink messages of one type.
func onlyMessages(kind uint16) *unix.SockFprog {
	const offset = 4 // of nlmsg_type in struct nlmsghdr
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: offset},
		// The kernel loads in network order, the field has the host's order.
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(bpf.NetworkOrder(kind)), Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: math.MaxUint32},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	return &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
}

func (v *vanished) close() { unix.Close(v.socket) }

// since returns the indexes of the devices that have left since the last call. lost
// reports that there were more than the queue can hold.
func (v *vanished) since() (indexes map[uint32]struct{}, lost bool, err error) {
	indexes = map[uint32]struct{}{}
	for {
		n, _, err := unix.Recvfrom(v.socket, v.buffer, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return indexes, lost, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS):
			lost = true
			continue
		case err != nil:
			return nil, false, fmt.Errorf("read events of devices: %w", err)
		}
		messages, err := syscall.ParseNetlinkMessage(v.buffer[:n])
		if err != nil {
			return nil, false, fmt.Errorf("read events of devices: %w", err)
		}
		for _, m := range messages {
			if m.Header.Type == unix.RTM_DELLINK && len(m.Data) >= unix.SizeofIfInfomsg {
				const offset = 4 // of ifi_index in struct ifinfomsg
				indexes[binary.NativeEndian.Uint32(m.Data[offset:])] = struct{}{}
			}
		}
	}
}
