// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package socket asks with plain system calls, and reports the kernel's view of the other
// end: the network packages of Go hide that, and have no IPv6 socket that talks to an
// IPv4 address.
package socket

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/testtool/report"
)

// Family returns the family of the sockets that talk to an address. Sockets for IPv6 talk to an
// address in the mapped form.
func Family(addr netip.Addr) int {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// Address returns the form of an address and port for system calls.
func Address(addr netip.AddrPort) unix.Sockaddr {
	if addr.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())}
	}
	return &unix.SockaddrInet6{Addr: addr.Addr().As16(), Port: int(addr.Port())}
}

// text returns an address of a system call, "" for none.
func text(from unix.Sockaddr) string {
	switch a := from.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)).String()
	}
	return ""
}

// Socket is a socket that talks to a target.
type Socket struct {
	fd     int
	target string
	// to is given with each datagram; nil where the socket is connected.
	to unix.Sockaddr
}

// Open returns a socket to tcp://ADDR:PORT, udp://ADDR:PORT, or, not connected to it,
// sendto://ADDR:PORT. No call waits longer than limit.
func Open(target string, limit time.Duration) (*Socket, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("read target: %w", err)
	}
	addr, err := netip.ParseAddrPort(u.Host)
	if err != nil {
		return nil, fmt.Errorf("read target %q: %w", target, err)
	}
	kind, known := map[string]int{"tcp": unix.SOCK_STREAM, "udp": unix.SOCK_DGRAM, "sendto": unix.SOCK_DGRAM}[u.Scheme]
	if !known {
		return nil, fmt.Errorf("read target %q: want tcp://, udp:// or sendto://", target)
	}
	s := &Socket{target: target}
	if s.fd, err = unix.Socket(Family(addr.Addr()), kind|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open socket: %w", err)
	}
	err = s.prepare(limit)
	if u.Scheme == "sendto" {
		s.to = Address(addr)
	} else if err == nil {
		err = named("connect", again(func() error { return unix.Connect(s.fd, Address(addr)) }))
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Socket) prepare(limit time.Duration) error {
	wait := unix.NsecToTimeval(limit.Nanoseconds())
	return named("set up socket", errors.Join(
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &wait)))
}

// Close ends the socket.
func (s *Socket) Close() { _ = unix.Close(s.fd) } // nothing is left to be written

// Ask sends a line and reads one.
func (s *Socket) Ask(line string) report.Socket {
	result := report.Socket{Target: s.target}
	answer, err := s.exchange(line, &result)
	if err != nil {
		result.Error = err.Error()
		return result
	}
	if fields := strings.Fields(answer); len(fields) > 1 {
		result.Name, result.Peer = fields[0], fields[1]
	}
	return result
}

// AskAll asks all targets from one unconnected socket for datagrams before it reads a reply, and
// reads as many replies. From of each reply is the address that the reply came from. The first
// target decides the family of the socket.
func AskAll(targets []netip.AddrPort, line string, limit time.Duration) ([]report.Socket, error) {
	first, err := Open("sendto://"+targets[0].String(), limit)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	for _, to := range targets {
		first.to = Address(to)
		if err := again(func() error { return first.send([]byte(line + "\n")) }); err != nil {
			return nil, named("send", err)
		}
	}
	replies := make([]report.Socket, len(targets))
	for i := range replies {
		answer, from, err := first.receive()
		if err != nil {
			return nil, err
		}
		replies[i].From = text(from)
		if fields := strings.Fields(answer); len(fields) > 1 {
			replies[i].Name, replies[i].Peer = fields[0], fields[1]
		}
	}
	return replies, nil
}

func (s *Socket) exchange(line string, result *report.Socket) (string, error) {
	if s.to == nil {
		peer, err := unix.Getpeername(s.fd)
		if err != nil {
			return "", named("getpeername", err)
		}
		result.PeerName = text(peer)
	}
	if err := again(func() error { return s.send([]byte(line + "\n")) }); err != nil {
		return "", named("send", err)
	}
	answer, from, err := s.receive()
	result.From = text(from)
	return answer, err
}

func (s *Socket) send(data []byte) error {
	if s.to != nil {
		return unix.Sendto(s.fd, data, 0, s.to)
	}
	_, err := unix.Write(s.fd, data)
	return err
}

// Ended waits until the socket is ended, but no longer than that, and returns the
// kernel's error then; nil when it was not ended.
func (s *Socket) Ended(limit time.Duration) error {
	ready := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	n := 0
	err := again(func() (err error) {
		n, err = unix.Poll(ready, int(limit.Milliseconds()))
		return err
	})
	if err != nil || n == 0 {
		return named("poll", err)
	}
	_, _, err = s.receive()
	return err
}

func (s *Socket) receive() (answer string, from unix.Sockaddr, err error) {
	data := make([]byte, 2048)
	n := 0
	err = again(func() (err error) {
		n, from, err = unix.Recvfrom(s.fd, data, 0)
		return err
	})
	if err == nil && n == 0 {
		err = io.EOF
	}
	return string(data[:max(n, 0)]), from, named("receive", err)
}

// again repeats a call that the runtime has interrupted: the kernel does not begin a call with a
// time limit again.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func named(step string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", step, err)
}
