// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// socket is a netlink socket: the library's, for one request at a time, and one for
// batches.
type socket struct {
	*netlink.Handle
	batches *nl.NetlinkSocket
}

// openSocket opens one in the network namespace of the calling thread, for the
// caller to close.
func openSocket() (*socket, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	batches, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		handle.Close()
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	return &socket{handle, batches}, nil
}

// indexOf returns the index of a device of the socket's namespace. Unlike a request by
// netlink this one does not wait for the kernel's lock of all devices.
func (s *socket) indexOf(name string) (int, error) {
	request, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(s.batches.GetFd(), unix.SIOCGIFINDEX, request)
	}
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", name, err)
	}
	return int(request.Uint32()), nil
}

func (s *socket) close() {
	s.Close() // that of the Handle
	s.batches.Close()
}

// idleSockets bounds how many sockets are kept for later.
const idleSockets = 16

// sockets are netlink sockets of one network namespace. A socket takes one request
// at a time, for as long as the kernel has it wait for its lock of all devices. So
// each caller has one of its own.
type sockets struct {
	space ns.NetNS
	idle  chan *socket
}

// newSockets returns those of the calling thread's network namespace.
func newSockets() (*sockets, error) {
	space, err := ns.GetCurrentNS()
	if err != nil {
		return nil, fmt.Errorf("open the thread's network namespace: %w", err)
	}
	return &sockets{space: space, idle: make(chan *socket, idleSockets)}, nil
}

// take returns a socket for the caller alone, who gives it back.
func (s *sockets) take() (h *socket, err error) {
	select {
	case h = <-s.idle:
		return h, nil
	default:
	}
	err = s.space.Do(func(ns.NetNS) error {
		h, err = openSocket()
		return err
	})
	return h, err
}

func (s *sockets) giveBack(h *socket) {
	select {
	case s.idle <- h:
	default:
		h.close()
	}
}

// close closes the idle sockets.
func (s *sockets) close() {
	for {
		select {
		case h := <-s.idle:
			h.close()
		default:
			_ = s.space.Close() // nothing was written
			return
		}
	}
}
