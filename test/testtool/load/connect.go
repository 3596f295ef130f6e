// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/testtool/socket"
)

// silence is how long Connect waits for an answer.
const silence = 5 * time.Second

// Connect opens a TCP connection, sends one byte, waits for one and resets the connection, again
// and again for the given time. The measured times cover all of it. ports is how many source ports
// are taken in turn, from the first on. It bounds the number of flows that are remembered on the
// way. With 0 the kernel chooses the ports.
func Connect(
	ctx context.Context,
	target string,
	duration time.Duration,
	first uint16,
	ports int,
) (report.Latency, error) {
	addr, err := netip.ParseAddrPort(target)
	if err != nil {
		return report.Latency{}, fmt.Errorf("target: %w", err)
	}
	c := &connector{target: socket.Address(addr), family: socket.Family(addr.Addr()), first: int(first), ports: ports}
	return exchange(ctx, target, duration, c.once)
}

// connector opens connections with plain system calls: the poller of the Go runtime would cost as
// much as the measured operation.
type connector struct {
	target             unix.Sockaddr
	family             int
	first, ports, next int
}

func (c *connector) once() error {
	fd, err := unix.Socket(c.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	if err := c.prepare(fd); err != nil {
		return fmt.Errorf("set up socket: %w", err)
	}
	if err := unix.Connect(fd, c.target); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	one := []byte{1}
	if _, err := unix.Write(fd, one); err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	return receive(fd, one)
}

// receive waits for one byte. The kernel does not begin a read with a time limit again when the
// runtime interrupts it.
func receive(fd int, one []byte) error {
	for {
		n, err := unix.Read(fd, one)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("read response: %w", err)
		case n != 1:
			return fmt.Errorf("read response: %w", io.EOF)
		default:
			return nil
		}
	}
}

// prepare makes a socket that is reset when it is closed, so that its port is free again at once.
func (c *connector) prepare(fd int) error {
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return err
	}
	wait := unix.NsecToTimeval(silence.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return err
	}
	// For the opening as well, which the kernel begins again by itself.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds())); err != nil {
		return err
	}
	if c.ports == 0 {
		return nil
	}
	port := c.first + c.next%c.ports
	c.next++
	local := netip.IPv4Unspecified()
	if c.family == unix.AF_INET6 {
		local = netip.IPv6Unspecified()
	}
	return unix.Bind(fd, socket.Address(netip.AddrPortFrom(local, uint16(port))))
}
