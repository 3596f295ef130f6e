// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"context"
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Socket is a netlink socket: the library's, for one request at a time, and one for
// batches.
type Socket struct {
	*netlink.Handle
	batches *nl.NetlinkSocket
}

// OpenSocket opens one in the network namespace of the calling thread, for the
// caller to close.
func OpenSocket() (*Socket, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	batches, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		handle.Close()
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	return &Socket{handle, batches}, nil
}

// IndexOf returns the index of a device of the socket's namespace. Unlike a request by
// netlink this one does not wait for the kernel's lock of all devices.
func (s *Socket) IndexOf(name string) (int, error) {
	request, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(s.batches.GetFd(), unix.SIOCGIFINDEX, request)
	}
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", name, err)
	}
	return int(request.Uint32()), nil
}

// Request sends a request that asks for messages of a kind, and returns them without
// their headers.
func (s *Socket) Request(request *nl.NetlinkRequest, kind uint16) ([][]byte, error) {
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s.batches}}
	return request.Execute(unix.NETLINK_ROUTE, kind)
}

// Close closes the socket.
func (s *Socket) Close() {
	s.Handle.Close()
	s.batches.Close()
}

// idleSockets bounds how many sockets are kept for later.
const idleSockets = 16

// Sockets are netlink sockets of one network namespace. A socket takes one request at a time, for
// as long as it waits for the kernel's lock of all devices. So each caller has one of its own.
type Sockets struct {
	space ns.NetNS
	idle  chan *Socket
}

// NewSockets returns the sockets of the calling thread's network namespace.
func NewSockets() (*Sockets, error) {
	space, err := ns.GetCurrentNS()
	if err != nil {
		return nil, fmt.Errorf("open the thread's network namespace: %w", err)
	}
	return &Sockets{space: space, idle: make(chan *Socket, idleSockets)}, nil
}

// Take returns a socket for the caller alone, who gives it back.
func (s *Sockets) Take() (h *Socket, err error) {
	select {
	case h = <-s.idle:
		return h, nil
	default:
	}
	err = s.space.Do(func(ns.NetNS) error {
		h, err = OpenSocket()
		return err
	})
	return h, err
}

// GiveBack takes a socket back that Take returned.
func (s *Sockets) GiveBack(h *Socket) {
	select {
	case s.idle <- h:
	default:
		h.Close()
	}
}

// With calls f with a socket for f alone. An ended ctx is an error.
func (s *Sockets) With(ctx context.Context, f func(*Socket) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h, err := s.Take()
	if err != nil {
		return err
	}
	defer s.GiveBack(h)
	return f(h)
}

// Close closes the idle sockets.
func (s *Sockets) Close() {
	for {
		select {
		case h := <-s.idle:
			h.Close()
		default:
			_ = s.space.Close() // nothing was written
			return
		}
	}
}
