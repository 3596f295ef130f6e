// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"github.com/alioth-net/alioth/test/testtool/blocking"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// TCP sends as fast as it can over one connection for the given time and reports the data that the
// sink at the other end received. size is the size of one write.
func TCP(ctx context.Context, target string, duration time.Duration, size int) (report.Load, error) {
	conn, err := dialSink(ctx, target)
	if err != nil {
		return report.Load{}, err
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, "tcp"); err != nil {
		return report.Load{}, fmt.Errorf("send request: %w", err)
	}
	chunk := make([]byte, size)
	for end := time.Now().Add(duration); time.Now().Before(end) && ctx.Err() == nil; {
		if _, err := conn.Write(chunk); err != nil {
			return report.Load{}, fmt.Errorf("send load: %w", err)
		}
	}
	return tallyOf(conn, target)
}

// UDP sends datagrams of the given payload size as fast as it can for the given time, and reports
// the datagrams that the sink received.
func UDP(ctx context.Context, target string, duration time.Duration, size int) (report.Load, error) {
	session := rand.Uint64()
	sent, err := sendDatagrams(ctx, target, session, duration, max(size, 8))
	if err != nil {
		return report.Load{}, err
	}
	conn, err := dialSink(ctx, target)
	if err != nil {
		return report.Load{}, err
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, "udp", session); err != nil {
		return report.Load{}, fmt.Errorf("send request: %w", err)
	}
	result, err := tallyOf(conn, target)
	result.Sent = sent
	return result, err
}

func dialSink(ctx context.Context, target string) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// tallyOf half-closes and reads the sink's answer.
func tallyOf(conn *net.TCPConn, target string) (report.Load, error) {
	if err := conn.CloseWrite(); err != nil {
		return report.Load{}, fmt.Errorf("end load: %w", err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return report.Load{}, err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return report.Load{}, fmt.Errorf("read the sink's tally: %w", err)
	}
	result := report.Load{Target: target}
	if _, err := fmt.Sscan(line, &result.Bytes, &result.Packets, &result.Duration); err != nil {
		return report.Load{}, fmt.Errorf("read the sink's tally %q: %w", line, err)
	}
	if seconds := result.Duration.Seconds(); seconds > 0 {
		result.BitsPerSecond = float64(result.Bytes) * 8 / seconds
		result.PacketsPerSecond = float64(result.Packets) / seconds
	}
	return result, nil
}

// sendDatagrams writes past the poller, which would be a good part of the cost
// of a datagram.
func sendDatagrams(
	ctx context.Context,
	target string,
	session uint64,
	duration time.Duration,
	size int,
) (int64, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", target)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	socket, err := blocking.New(conn.(*net.UDPConn))
	if err != nil {
		return 0, err
	}
	defer socket.Close()
	data := make([]byte, size)
	binary.BigEndian.PutUint64(data, session)
	var sent int64
	for end := time.Now().Add(duration); time.Now().Before(end) && ctx.Err() == nil; {
		for range 64 {
			_, err := socket.Write(data)
			switch {
			case err == nil:
				sent++
			case errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.EAGAIN):
			default:
				return sent, fmt.Errorf("send datagram: %w", err)
			}
		}
	}
	return sent, nil
}
