// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sockdiag_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/sockdiag"
)

// connect opens a socket for datagrams, and describes it.
func connect(t *testing.T, network, to string) (*net.UDPConn, sockdiag.Socket) {
	t.Helper()
	conn, err := net.Dial(network, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var cookie uint64
	if ctl := raw.Control(func(fd uintptr) { cookie, err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE) }); ctl != nil || err != nil {
		t.Fatal(ctl, err)
	}
	return conn.(*net.UDPConn), sockdiag.Socket{
		Cookie: cookie, Local: netip.MustParseAddrPort(conn.LocalAddr().String()), Remote: netip.MustParseAddrPort(conn.RemoteAddr().String()),
	}
}

func TestSockDiag_EndSocket_OthersKept(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		endsOneSocket(t)
		return nil
	})
}

func endsOneSocket(t *testing.T) {
	if err := sockdiag.Probe(); errors.Is(err, sockdiag.ErrNotSupported) {
		t.Skip("missing feature: SOCK_DESTROY of UDP sockets")
	} else if err != nil {
		t.Fatal(err)
	}
	for network, to := range map[string]string{"udp4": "127.0.0.1:0", "udp6": "[::1]:0"} {
		server, err := net.ListenPacket(network, to)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		conn, socket := connect(t, network, server.LocalAddr().String())
		other := socket
		other.Cookie++
		if err := sockdiag.Destroy(other); !errors.Is(err, sockdiag.ErrGone) {
			t.Errorf("%s: a socket of another cookie was to be ended: %v", network, err)
		}
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Errorf("%s: %v", network, err)
		}
		if err := sockdiag.Destroy(socket); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 16)); !errors.Is(err, unix.ECONNABORTED) {
			t.Errorf("%s: the socket says %v, want ECONNABORTED", network, err)
		}
		if err := sockdiag.Destroy(socket); !errors.Is(err, sockdiag.ErrGone) {
			t.Errorf("%s: ended once more: %v", network, err)
		}
	}
}
