// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package socket_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/testtool/socket"
)

// echo serves a TCP and a UDP port of the same number, as the test tool's server does.
func echo(t *testing.T) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	port = listener.Addr().(*net.TCPAddr).Port
	packets, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packets.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "here %s hello\n", conn.RemoteAddr())
			t.Cleanup(func() { conn.Close() })
		}
	}()
	go func() {
		data := make([]byte, 100)
		for {
			_, peer, err := packets.ReadFrom(data)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(fmt.Appendf(nil, "here %s hello\n", peer), peer) // missed by the test
		}
	}()
	return port
}

func TestSocket_EachScheme_PeerTold(t *testing.T) {
	port := echo(t)
	for _, host := range []string{"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"} {
		peer := fmt.Sprintf("%s:%d", host, port)
		for scheme, want := range map[string][2]string{"tcp": {peer, ""}, "udp": {peer, peer}, "sendto": {"", peer}} {
			s, err := socket.Open(scheme+"://"+peer, 10*time.Second)
			if err != nil {
				t.Errorf("%s to %s: %v", scheme, peer, err)
				continue
			}
			got := s.Ask("hello")
			if got.Name != "here" || got.Error != "" || got.PeerName != want[0] || got.From != want[1] {
				t.Errorf("%s to %s: %+v, want %q", scheme, peer, got, want)
			}
			s.Close()
		}
	}
}

func TestSocket_KernelError_Told(t *testing.T) {
	if _, err := socket.Open("tcp://127.0.0.1:1", time.Second); err == nil || !strings.Contains(err.Error(), "connect: connection refused") {
		t.Errorf("connecting where nobody listens: %v", err)
	}
	for _, target := range []string{"icmp://127.0.0.1:1", "udp://nowhere"} {
		if _, err := socket.Open(target, time.Second); err == nil {
			t.Errorf("%s was opened", target)
		}
	}
	s, err := socket.Open("udp://127.0.0.1:1", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Ended(time.Millisecond); err != nil {
		t.Errorf("a socket that nobody has ended says %v", err)
	}
	if got := s.Ask("hello"); !strings.Contains(got.Error, "connection refused") {
		t.Errorf("where nobody listens: %+v", got)
	}
}
