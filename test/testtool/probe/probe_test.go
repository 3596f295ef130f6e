// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/freeport"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/testtool/probe"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/testtool/server"
	"github.com/alioth-net/alioth/test/waits"
)

func startServer(t *testing.T) server.Config {
	t.Helper()
	config := server.Config{Name: "here", Echo: freeport.One(t), HTTP: freeport.One(t)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.New(config, slog.New(slog.DiscardHandler)).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("server ended: %v", err)
		}
	})
	return config
}

func TestAsk_EachScheme_ServerAndPeerReported(t *testing.T) {
	config := startServer(t)
	echo, web := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), config.Echo), netip.AddrPortFrom(netip.MustParseAddr("::1"), config.HTTP)
	for _, target := range []string{"tcp://" + echo.String(), "udp://" + echo.String(), "http://" + web.String() + "/x"} {
		t.Run(target[:4], func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(10*time.Second))
			defer cancel()
			got := probe.Ask(ctx, target)
			if !got.OK || got.Name != "here" || !netip.MustParseAddr(got.Peer).IsLoopback() {
				t.Errorf("got %+v, want an answer of \"here\" to a loopback address", got)
			}
		})
	}
}

// Again at once, too: no connection keeps the port to itself when it has ended.
func TestAsk_ManyTargetsFromOnePort_AllAnswered(t *testing.T) {
	config, from := startServer(t), freeport.One(t)
	ctx, cancel := context.WithTimeout(probe.WithSourcePort(t.Context(), from), waits.Limit(10*time.Second))
	defer cancel()
	for range 3 {
		results := make(chan report.Probe)
		targets := []string{
			fmt.Sprintf("tcp://127.0.0.1:%d", config.Echo), fmt.Sprintf("http://127.0.0.1:%d/x", config.HTTP),
			fmt.Sprintf("udp://127.0.0.1:%d", config.Echo), fmt.Sprintf("tcp://[::1]:%d", config.Echo),
		}
		for _, target := range targets {
			go func() { results <- probe.Ask(ctx, target) }()
		}
		for range targets {
			if got := <-results; !got.OK || got.PeerPort != from {
				t.Errorf("got %+v, want an answer to port %d", got, from)
			}
		}
	}
}

func TestAsk_ConnectScheme_ConnectionIsEnough(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	if got := probe.Ask(t.Context(), "connect://"+listener.Addr().String()); !got.OK {
		t.Errorf("a server that says nothing: %+v, want a connection", got)
	}
}

func TestAsk_NoAnswer_LastErrorReported(t *testing.T) {
	tests := map[string]struct{ target, want string }{
		"a closed port":     {"tcp://127.0.0.1:1", "refused"},
		"no connection":     {"connect://127.0.0.1:1", "refused"},
		"no address":        {"icmp://nowhere", "can't be read"},
		"an unknown scheme": {"sctp://127.0.0.1:1", "unknown scheme"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			got := probe.Ask(ctx, tt.target)
			if got.OK || !strings.Contains(got.Error, tt.want) {
				t.Errorf("got %+v, want an error with %q", got, tt.want)
			}
		})
	}
}

func TestAskOnce_Target_OneAttempt(t *testing.T) {
	config := startServer(t)
	target := "tcp://" + netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), config.Echo).String()
	if got := probe.Ask(t.Context(), target); !got.OK { // which waits for the server
		t.Fatalf("%+v", got)
	}
	if got := probe.AskOnce(t.Context(), target); !got.OK || got.Name != "here" {
		t.Errorf("%+v, want an answer", got)
	}
	if got := probe.AskOnce(t.Context(), "tcp://127.0.0.1:1"); got.OK || !strings.Contains(got.Error, "refused") {
		t.Errorf("%+v, want a refusal though there is no end to the time", got)
	}
}

func TestAsk_AttemptCutShort_EarlierErrorReported(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for first := true; ; first = false {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if first {
				conn.Close()
				continue
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 3*probe.Interval)
	defer cancel()
	got := probe.Ask(ctx, "tcp://"+listener.Addr().String())
	if got.OK || strings.Contains(got.Error, "timeout") {
		t.Errorf("got %+v, want the error of the connection that was closed", got)
	}
}

func TestPing_EveryReply_Counted(t *testing.T) {
	needs.Root(t, "to open raw sockets")
	for _, target := range []string{"127.0.0.1", "::1"} {
		t.Run(target, func(t *testing.T) {
			got, err := probe.Ping(t.Context(), probe.Series{
				Target: netip.MustParseAddr(target), Interval: time.Millisecond, Count: 50, Wait: 5 * time.Second,
			})
			if err != nil {
				t.Fatalf("ping: %v", err)
			}
			if got.Sent != 50 || got.Received != 50 || got.Lost != 0 || got.LongestGap != 0 || got.RTT.Max == 0 {
				t.Errorf("got %+v, want 50 sent and received", got)
			}
		})
	}
}

func TestFirstReply_ReplyOrContextEnd_Returns(t *testing.T) {
	needs.Root(t, "to open raw sockets")
	before := time.Now()
	at, err := probe.FirstReply(t.Context(), netip.MustParseAddr("127.0.0.1"), time.Millisecond)
	if err != nil || at.Before(before) {
		t.Errorf("first reply at %s, %v; began at %s", at, err, before)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := probe.FirstReply(ctx, netip.MustParseAddr("192.0.2.1"), time.Millisecond); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context gives %v", err)
	}
}
