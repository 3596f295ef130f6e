// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/test/waits"
)

// Patience bounds waits for events that should come.
var Patience = waits.Limit(time.Minute)

// Shyness bounds waits for events that should not come.
const Shyness = 300 * time.Millisecond

// Ping sends one echo request of size bytes from a namespace and reports
// whether its answer came.
func Ping(t testing.TB, ns netns.NsHandle, dst netip.Addr, size int, wait time.Duration) bool {
	t.Helper()
	var answered bool
	In(t, ns, func() {
		network, request, reply := "ip4:icmp", byte(8), byte(0)
		if dst.Is6() {
			network, request, reply = "ip6:ipv6-icmp", 128, 129
		}
		conn, err := net.ListenIP(network, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		message := append([]byte{request, 0, 0, 0, 0x12, 0x34, 0, 1}, make([]byte, size)...)
		if dst.Is4() {
			binary.BigEndian.PutUint16(message[2:], wire.Fold(wire.Sum(0, message)))
		}
		if _, err := conn.WriteTo(message, &net.IPAddr{IP: dst.AsSlice()}); err != nil {
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		buf := make([]byte, 1<<16)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if n == len(message) && buf[0] == reply && from.(*net.IPAddr).IP.Equal(dst.AsSlice()) {
				answered = true
				return
			}
		}
	})
	return answered
}

// Listen opens a TCP listener inside a namespace; it stays there.
func Listen(t testing.TB, ns netns.NsHandle, addr netip.AddrPort) net.Listener {
	t.Helper()
	var l net.Listener
	In(t, ns, func() {
		var err error
		if l, err = net.Listen("tcp", addr.String()); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { l.Close() })
	return l
}

// Dial connects from inside a namespace.
func Dial(t testing.TB, ns netns.NsHandle, addr netip.AddrPort, linger int) (net.Conn, error) {
	t.Helper()
	dialer := net.Dialer{Timeout: Patience, Control: func(_, _ string, c syscall.RawConn) error {
		if linger == 0 {
			return nil
		}
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptLinger(
				int(fd),
				unix.SOL_SOCKET,
				unix.SO_LINGER,
				&unix.Linger{Onoff: 1, Linger: int32(linger)},
			)
		})
		return errors.Join(err, failed)
	}}
	var (
		conn net.Conn
		err  error
	)
	In(t, ns, func() { conn, err = dialer.Dial("tcp", addr.String()) })
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// Accept takes one connection and returns it and the address of its peer.
func Accept(t testing.TB, l net.Listener) (net.Conn, netip.Addr) {
	t.Helper()
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(Patience))
	conn, err := l.Accept()
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
}

// Transferred is the number of bytes that transfer sends.
const Transferred = 4 << 20

// Transfer sends a few megabytes one way and compares.
func Transfer(t testing.TB, from, to net.Conn) {
	t.Helper()
	data := make([]byte, Transferred)
	rand.Read(data)
	sent := make(chan error, 1)
	go func() {
		_ = from.SetDeadline(time.Now().Add(Patience))
		_, err := from.Write(data)
		sent <- errors.Join(err, from.(*net.TCPConn).CloseWrite())
	}()
	_ = to.SetDeadline(time.Now().Add(Patience))
	got, err := io.ReadAll(to)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatalf("transfer: %v", err)
	}
	if !bytes.Equal(data, got) {
		t.Fatalf("received %d bytes, not those that were sent", len(got))
	}
}

// Stream connects, checks the client's address and transfers.
func Stream(t testing.TB, client, server netns.NsHandle, src, dst netip.Addr) {
	t.Helper()
	addr := netip.AddrPortFrom(dst, 8080)
	l := Listen(t, server, addr)
	defer l.Close()
	conn, err := Dial(t, client, addr, 0)
	if err != nil {
		t.Fatalf("connect to %s: %v", addr, err)
	}
	peer, from := Accept(t, l)
	if from != src {
		t.Errorf("server sees client %s, want %s", from, src)
	}
	Transfer(t, conn, peer)
}

// Datagram sends a datagram and reports whether it came with its contents.
func Datagram(t testing.TB, client, server netns.NsHandle, dst netip.AddrPort, size int) bool {
	t.Helper()
	return DatagramWith(t, client, server, dst, size, nil)
}

// DatagramWith does the same from a socket that is prepared.
func DatagramWith(t testing.TB, client, server netns.NsHandle, dst netip.AddrPort, size int,
	prepare func(fd int) error,
) bool {
	t.Helper()
	var rx, tx *net.UDPConn
	In(t, server, func() {
		var err error
		if rx, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(dst)); err != nil {
			t.Fatal(err)
		}
	})
	defer rx.Close()
	In(t, client, func() {
		var err error
		if tx, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(dst)); err != nil {
			t.Fatal(err)
		}
	})
	defer tx.Close()
	if prepare != nil {
		OnSocket(t, tx, prepare)
	}
	data := make([]byte, size)
	rand.Read(data)
	if _, err := tx.Write(data); err != nil {
		t.Fatalf("send datagram of %d bytes: %v", size, err)
	}
	buf := make([]byte, 1<<16)
	_ = rx.SetReadDeadline(time.Now().Add(Patience))
	n, err := rx.Read(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(buf[:n], data)
}

// OnSocket sets up a connection's socket.
func OnSocket(t testing.TB, conn *net.UDPConn, do func(fd int) error) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failure error
	if err := raw.Control(func(fd uintptr) { failure = do(int(fd)) }); err != nil || failure != nil {
		t.Fatalf("set up socket: %v", errors.Join(err, failure))
	}
}

// Eventually waits for a condition that another thread of the kernel makes
// true.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	waits.True(t, time.Minute, what, holds)
}

// UdpPair opens a UDP server in one namespace and a client of it in another.
func UdpPair(t testing.TB, at, from netns.NsHandle, dst netip.AddrPort) (server, client *net.UDPConn) {
	t.Helper()
	var err error
	In(t, at, func() { server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(dst)) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	In(t, from, func() { client, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(dst)) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return server, client
}

// PingPong sends a datagram there and back until it is stopped, or until one
// is lost.
func PingPong(client, server *net.UDPConn, stop <-chan struct{}) error {
	buf := make([]byte, 64)
	for round := uint32(0); ; round++ {
		select {
		case <-stop:
			return nil
		default:
		}
		deadline := time.Now().Add(Patience)
		_ = client.SetReadDeadline(deadline)
		_ = server.SetReadDeadline(deadline)
		if _, err := client.Write(binary.BigEndian.AppendUint32(nil, round)); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		n, from, err := server.ReadFromUDPAddrPort(buf)
		if err != nil {
			return fmt.Errorf("round %d, there: %w", round, err)
		}
		if _, err := server.WriteToUDPAddrPort(buf[:n], from); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if n, err = client.Read(buf); err != nil || n != 4 || binary.BigEndian.Uint32(buf) != round {
			return fmt.Errorf("round %d, back: %d bytes, %w", round, n, err)
		}
	}
}
