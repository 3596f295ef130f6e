// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wayin

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// request is a request that servers of HTTP answer, too.
const request = "GET / HTTP/1.0\r\n\r\n"

// Protocols of SMC (linux/smc.h): each has the addresses of one family.
const (
	smc4 = 0
	smc6 = 1
)

// connect takes a way of sockets.
func connect(w Way, fd int, to netip.AddrPort) (err error) {
	switch w {
	case FastOpen, MultipathFastOpen:
		err := unix.Sendto(fd, []byte(request), unix.MSG_FASTOPEN, sockaddr(to))
		if w == MultipathFastOpen && errors.Is(err, unix.EOPNOTSUPP) {
			return ErrAbsent // before Linux 6.2
		}
		if err != nil {
			return fmt.Errorf("send: %w", err)
		}
		return listen(fd)
	case LateOpen:
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1); err != nil {
			return err
		}
		err = unix.Connect(fd, sockaddr(to))
	case Ring:
		err = connectByRing(fd, to)
	case Nonblocking:
		err = connectLater(fd, to)
	default:
		err = unix.Connect(fd, sockaddr(to))
	}
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return ask(fd)
}

// open makes the socket of a way.
func open(w Way, to netip.AddrPort) (int, error) {
	family, kind, protocol, last := unix.AF_INET, unix.SOCK_STREAM, 0, smc4
	if to.Addr().Is6() {
		family, last = unix.AF_INET6, smc6
	}
	switch w {
	case Raw:
		kind, protocol = unix.SOCK_RAW, unix.IPPROTO_TCP
	case Multipath, MultipathFastOpen:
		protocol = unix.IPPROTO_MPTCP
	case SMC:
		family, protocol = unix.AF_SMC, last
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return -1, ErrAbsent
	}
	return fd, err
}

// ask sends the request and reads the answer.
func ask(fd int) error {
	if _, err := unix.Write(fd, []byte(request)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return listen(fd)
}

func listen(fd int) error {
	n, err := unix.Read(fd, make([]byte, 1))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if n == 0 {
		return ErrUnanswered
	}
	return nil
}

// connectLater returns the result of a connect that the call does not wait for.
func connectLater(fd int, to netip.AddrPort) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1); err != nil {
		return err
	}
	failed, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if failed != 0 {
		return unix.Errno(failed)
	}
	return unix.SetNonblock(fd, false)
}

func sockaddr(to netip.AddrPort) unix.Sockaddr {
	if to.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
}
