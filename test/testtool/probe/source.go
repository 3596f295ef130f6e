// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"net"
	"syscall"
)

type portKey struct{}

// WithSourcePort sets the source port for requests to TCP, UDP and HTTP targets, several at once
// too; 0 leaves it to the kernel.
func WithSourcePort(ctx context.Context, port uint16) context.Context {
	if port == 0 {
		return ctx
	}
	return context.WithValue(ctx, portKey{}, port)
}

// dial connects from the port that was set.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	if port, ok := ctx.Value(portKey{}).(uint16); ok {
		switch network {
		case "udp":
			dialer.LocalAddr = &net.UDPAddr{Port: int(port)}
		case "tcp":
			dialer.LocalAddr = &net.TCPAddr{Port: int(port)}
			dialer.Control = shareable
		}
	}
	return dialer.DialContext(ctx, network, address)
}

// shareable lets connections to several targets have one port, and ends them with a
// reset: closed as usual, none could have it again for a minute.
func shareable(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = errors.Join(
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
			syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1}))
	})
	return errors.Join(err, failed)
}
