// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package freeport chooses ports for servers that tests start as processes of their own,
// which can't be handed a listening socket.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
)

// rangeFile has the first and the last port that the kernel gives to sockets which ask for
// none (ip-sysctl.rst of the kernel's documentation).
const rangeFile = "/proc/sys/net/ipv4/ip_local_port_range"

// first is the first port to choose. Kubernetes' own programs have lower ones by default.
const first = 12000

// attempts is how many ports are tried before Choose fails.
const attempts = 1000

// Choose returns n different ports. No program listens on them with TCP or UDP. The kernel gives
// none of them to a connection or listener that leaves the choice to it, so a server may start, end
// and start again on one, whatever else the machine does.
func Choose(ctx context.Context, n int) ([]uint16, error) {
	end, err := firstOfKernel()
	if err != nil {
		return nil, err
	}
	if end <= first {
		return nil, fmt.Errorf("%s starts with %d, which leaves no port to choose", rangeFile, end)
	}
	chosen := make([]uint16, 0, n)
	for i := 0; i < attempts && len(chosen) < n; i++ {
		port := uint16(first + rand.IntN(end-first))
		held, err := hold(ctx, port)
		if err != nil {
			continue // something has the port, perhaps this call itself
		}
		defer func() { _ = held() }() // at the end, so that all differ
		chosen = append(chosen, port)
	}
	if len(chosen) == n {
		return chosen, nil
	}
	return nil, fmt.Errorf("%d attempts found %d of %d free ports below %d", attempts, len(chosen), n, end)
}

// One returns a port as Choose does.
func One(t testing.TB) uint16 {
	t.Helper()
	ports, err := Choose(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return ports[0]
}

// Loopback returns an IPv4 loopback address with a port as Choose returns it.
func Loopback(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(One(t))))
}

func firstOfKernel() (port int, err error) {
	text, err := os.ReadFile(rangeFile)
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Sscan(string(text), &port); err != nil {
		return 0, fmt.Errorf("read %s: %w", rangeFile, err)
	}
	return port, nil
}

// hold takes a port on all addresses, until the returned function is called.
func hold(ctx context.Context, port uint16) (func() error, error) {
	config, addr := net.ListenConfig{}, net.JoinHostPort("", strconv.Itoa(int(port)))
	stream, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	packets, err := config.ListenPacket(ctx, "udp", addr)
	if err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	return func() error { return errors.Join(stream.Close(), packets.Close()) }, nil
}
