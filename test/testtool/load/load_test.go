// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/freeport"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/testtool/load"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/testtool/server"
	"github.com/alioth-net/alioth/test/waits"
)

func startServer(t *testing.T) server.Config {
	t.Helper()
	config := server.Config{Name: "here", Echo: freeport.One(t), Stream: freeport.One(t), Sink: freeport.One(t), RoundTrip: freeport.One(t), HTTP: freeport.One(t)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.New(config, slog.New(slog.DiscardHandler)).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("server ended: %v", err)
		}
	})
	waitForPort(t, config.HTTP)
	return config
}

func waitForPort(t *testing.T, port uint16) {
	t.Helper()
	waits.Until(t, 10*time.Second, "the port listens", func() error {
		conn, err := net.Dial("tcp", at(port))
		if err == nil {
			conn.Close()
		}
		return err
	})
}

func at(port uint16) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func TestStream_EveryRecord_Returned(t *testing.T) {
	config := startServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := 0
	got := load.Stream(ctx, at(config.Stream), time.Millisecond, func() { begun++ })
	if got.Sent == 0 || got.Returned != got.Sent || got.Corrupt != 0 || got.Reconnects != 0 || begun != 1 {
		t.Errorf("got %+v, begun %d times; want every record returned over one connection", got, begun)
	}
}

// A server that cuts the first connection and then garbles a record.
func TestStream_BrokenConnectionOrRecord_Reported(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(10*time.Second))
	defer cancel()
	go func() {
		first, err := listener.Accept()
		if err != nil {
			return
		}
		first.Close()
		second, err := listener.Accept()
		if err != nil {
			return
		}
		defer second.Close()
		record := make([]byte, 1024)
		if _, err := io.ReadFull(second, record); err != nil {
			return
		}
		record[500]++
		_, _ = second.Write(record)
		cancel()
		_, _ = io.Copy(second, second)
	}()
	got := load.Stream(ctx, listener.Addr().String(), time.Millisecond, nil)
	if got.Reconnects != 1 || got.Corrupt != 1 {
		t.Errorf("got %+v, want 1 reconnect and 1 corrupt record", got)
	}
}

func TestRates_TCPAndUDP_CountedByReceiver(t *testing.T) {
	config := startServer(t)
	tcp, err := load.TCP(t.Context(), at(config.Sink), 100*time.Millisecond, 64<<10)
	if err != nil || tcp.Bytes == 0 || tcp.BitsPerSecond == 0 {
		t.Errorf("tcp: %+v, %v", tcp, err)
	}
	udp, err := load.UDP(t.Context(), at(config.Sink), 100*time.Millisecond, 64)
	if err != nil || udp.Packets == 0 || udp.Packets > udp.Sent || udp.Bytes != udp.Packets*64 {
		t.Errorf("udp: %+v, %v", udp, err)
	}
}

func TestRoundTrip_Transactions_Counted(t *testing.T) {
	config := startServer(t)
	got, err := load.RoundTrip(t.Context(), at(config.RoundTrip), 100*time.Millisecond)
	if err != nil || got.Transactions == 0 || got.RTT.P50 == 0 || got.RTT.P99 < got.RTT.P50 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestConnect_Transactions_Counted(t *testing.T) {
	config := startServer(t)
	for _, ports := range []int{0, 3} {
		got, err := load.Connect(t.Context(), at(config.RoundTrip), 100*time.Millisecond, 20000, ports)
		if err != nil || got.Transactions < 10 || got.RTT.P50 == 0 {
			t.Errorf("%d ports: got %+v, %v", ports, got, err)
		}
	}
	if _, err := load.Connect(t.Context(), at(freeport.One(t)), 100*time.Millisecond, 0, 0); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("where nobody listens the error is %v", err)
	}
}

func TestEcho_Transactions_Counted(t *testing.T) {
	needs.Root(t, "to open raw sockets")
	got, err := load.Echo(t.Context(), netip.MustParseAddr("127.0.0.1"), 100*time.Millisecond)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("raw sockets need CAP_NET_RAW")
	}
	if err != nil || got.Transactions == 0 || got.RTT.P50 == 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestEcho_ContextEnds_Ends(t *testing.T) {
	needs.Root(t, "to open raw sockets")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := load.Echo(ctx, netip.MustParseAddr("127.0.0.1"), time.Hour)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("raw sockets need CAP_NET_RAW")
	}
	if err == nil {
		t.Error("it ended without an error")
	}
}

func TestConnections_Lost_CountedAndTold(t *testing.T) {
	config := startServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	begun := 0
	got := load.Connections(ctx, at(config.Echo), 1000, func() { begun++; cancel() })
	if got.Answered == 0 || got.Answered != got.Opened || got.Lost != 0 || got.Servers["here"] != got.Answered || begun != 1 || got.Took.Max == 0 {
		t.Errorf("%+v, begun %d times", got, begun)
	}
	for name, end := range map[string]func(net.Conn){
		"connection reset": func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0); conn.Close() },
		"EOF":              func(conn net.Conn) { _, _ = io.ReadFull(conn, make([]byte, 6)); conn.Close() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				end(conn)
			}
			listener.Close()
			cancel()
		}()
		got := load.Connections(ctx, listener.Addr().String(), 1, nil)
		if got.Lost != got.Opened || len(got.Losses) != got.Lost || !strings.Contains(got.Losses[0].Cause, name) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestConverse_EachNetwork_ServerTold(t *testing.T) {
	config := startServer(t)
	for _, network := range []string{"tcp", "udp", "datagrams"} {
		for _, host := range []string{"127.0.0.1", "::1"} {
			target := network + "://" + net.JoinHostPort(host, strconv.Itoa(int(config.Echo)))
			ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(10*time.Second))
			began := 0
			got, err := load.Converse(ctx, target, "mark", time.Millisecond, func() { began++; cancel() })
			if err != nil || began != 1 || got.Answered != 1 || got.Sent != 1 || got.Broken != 0 || len(got.Turns) != 1 ||
				got.Turns[0] != (report.Turn{Name: "here", Answers: 1}) {
				t.Errorf("%s: %+v, %v, begun %d times", target, got, err, began)
			}
		}
	}
	for _, target := range []string{"icmp://127.0.0.1:1", "tcp://nowhere:1"} {
		if got, err := load.Converse(t.Context(), target, "mark", time.Millisecond, nil); err == nil {
			t.Errorf("%s: %+v", target, got)
		}
	}
}

// Each connection is cut after its first answer, and the test ends with the third.
func TestConverse_ConnectionCut_CauseTold(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(10*time.Second))
	defer cancel()
	go func() {
		for _, name := range []string{"one", "two", ""} {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if name == "" {
				cancel()
			} else if line, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
				fmt.Fprintln(conn, name, "peer", strings.TrimSpace(line))
			}
			conn.Close()
		}
	}()
	got, err := load.Converse(ctx, "tcp://"+listener.Addr().String(), "mark", time.Millisecond, nil)
	want := []report.Turn{{Name: "one", Answers: 1}, {Name: "two", Answers: 1}}
	if err != nil || !slices.Equal(got.Turns, want) || got.Broken < 2 || len(got.Breaks) != got.Broken {
		t.Errorf("%+v, %v; want the turns %v", got, err, want)
	}
}
