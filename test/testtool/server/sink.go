// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/ipv6"

	"github.com/alioth-net/alioth/test/testtool/blocking"
)

// sink swallows load. Over TCP a client starts with one line: "tcp" and then
// bytes until it half-closes, or "udp <session>" and a half-close once its
// datagrams are sent; either way the sink answers with one line,
// "<bytes> <packets> <nanoseconds from first to last>". A datagram starts with
// its session, 8 bytes big-endian.
type sink struct {
	mu       sync.Mutex
	sessions map[uint64]*tally
}

// tally counts the data of one UDP session.
type tally struct {
	bytes, packets, first, last int64
}

func newSink() *sink { return &sink{sessions: map[uint64]*tally{}} }

func (s *sink) conn(conn *net.TCPConn) error {
	reader := bufio.NewReaderSize(conn, 1<<20)
	line, err := reader.ReadString('\n')
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	session, isUDP := strings.CutPrefix(strings.TrimSpace(line), "udp ")
	if !isUDP {
		start := time.Now()
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{reader}, make([]byte, 1<<20))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(conn, "%d 0 %d\n", n, time.Since(start))
		return err
	}
	if _, err := io.Copy(io.Discard, reader); err != nil {
		return err
	}
	return s.answer(conn, session)
}

func (s *sink) answer(conn io.Writer, session string) error {
	id, err := strconv.ParseUint(session, 10, 64)
	if err != nil {
		return fmt.Errorf("parse session %q: %w", session, err)
	}
	s.mu.Lock()
	t := s.sessions[id]
	delete(s.sessions, id)
	s.mu.Unlock()
	if t == nil {
		t = &tally{}
	}
	_, err = fmt.Fprintf(conn, "%d %d %d\n", t.bytes, t.packets, t.last-t.first)
	return err
}

// batchSize is how many datagrams are taken from the kernel at once, so that the sink does not
// limit the rate.
const batchSize = 64

func (s *sink) startUDP(port uint16) (func(context.Context) error, error) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: int(port)})
	if err != nil {
		return nil, err
	}
	// As much as the host allows; less only loses more datagrams.
	_ = conn.SetReadBuffer(8 << 20)
	return func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		return s.swallow(ipv6.NewPacketConn(conn))
	}, nil
}

func (s *sink) swallow(conn *ipv6.PacketConn) error {
	batch := make([]ipv6.Message, batchSize)
	for i := range batch {
		batch[i].Buffers = [][]byte{make([]byte, 2048)}
	}
	for {
		n, err := conn.ReadBatch(batch, 0)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive datagrams: %w", err)
		}
		now := time.Now().UnixNano()
		for _, message := range batch[:n] {
			s.note(message.Buffers[0][:message.N], now)
		}
	}
}

// note counts one datagram for its session.
func (s *sink) note(data []byte, now int64) {
	if len(data) < 8 {
		return
	}
	id := binary.BigEndian.Uint64(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.sessions[id]
	if t == nil {
		t = &tally{first: now}
		s.sessions[id] = t
	}
	t.bytes += int64(len(data))
	t.packets++
	t.last = now
}

// roundTripConn returns each read at once.
func roundTripConn(conn *net.TCPConn) error {
	if err := conn.SetNoDelay(true); err != nil {
		return err
	}
	socket, err := blocking.New(conn)
	if err != nil {
		return err
	}
	defer socket.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := socket.Read(buffer)
		if err != nil {
			return err
		}
		if _, err := socket.Write(buffer[:n]); err != nil {
			return err
		}
	}
}
