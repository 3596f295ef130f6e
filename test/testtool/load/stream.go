// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load puts load on a path and measures it: a long numbered stream,
// one-way TCP and UDP rates, and request/response over TCP.
package load

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/alioth-net/alioth/test/testtool/report"
)

// recordSize of the numbered stream: number, and the number again as filler.
const recordSize = 1024

// silenceLimit ends a connection that returns nothing, so that a path that is dead without an error
// is reported as dead.
const silenceLimit = 15 * time.Second

// Stream sends numbered records, one each interval, over one TCP connection
// until ctx ends, and checks that they come back in order and unchanged. A
// broken connection is counted and opened anew. begun, unless nil, is called
// once, when the first record is back.
func Stream(ctx context.Context, target string, interval time.Duration, begun func()) report.Stream {
	result := report.Stream{Target: target}
	if begun == nil {
		begun = func() {}
	}
	begun = sync.OnceFunc(begun)
	for ctx.Err() == nil {
		err := streamOnce(ctx, target, interval, &result, begun)
		if ctx.Err() != nil {
			break
		}
		result.Reconnects++
		result.Errors = append(result.Errors, err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return result
}

func streamOnce(ctx context.Context, target string, interval time.Duration, result *report.Stream, begun func()) error {
	dialer := net.Dialer{Timeout: silenceLimit}
	conn, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return err
	}
	defer conn.Close()
	sent := make(chan error, 1)
	go func() { sent <- sendRecords(ctx, conn.(*net.TCPConn), interval, &result.Sent) }()
	err = readRecords(conn, result, begun)
	conn.Close()
	if sendErr := <-sent; sendErr != nil && errors.Is(err, io.EOF) {
		return sendErr
	}
	return err
}

// sendRecords half-closes when ctx ends, so that the reader still gets every
// record that is on its way.
func sendRecords(ctx context.Context, conn *net.TCPConn, interval time.Duration, sent *int) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	record := make([]byte, recordSize)
	for number := uint64(0); ; number++ {
		select {
		case <-ctx.Done():
			return conn.CloseWrite()
		case <-ticker.C:
		}
		fill(record, number)
		if _, err := conn.Write(record); err != nil {
			return err
		}
		*sent++
	}
}

func fill(record []byte, number uint64) {
	for i := 0; i < len(record); i += 8 {
		binary.BigEndian.PutUint64(record[i:], number)
	}
}

func readRecords(conn net.Conn, result *report.Stream, begun func()) error {
	record := make([]byte, recordSize)
	last := time.Now()
	for want := uint64(0); ; want++ {
		if err := conn.SetReadDeadline(time.Now().Add(silenceLimit)); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, record); err != nil {
			return err
		}
		now := time.Now()
		result.LongestSilence = max(result.LongestSilence, now.Sub(last))
		last = now
		if intact(record, want) {
			result.Returned++
			begun()
		} else {
			result.Corrupt++
		}
	}
}

func intact(record []byte, number uint64) bool {
	for i := 0; i < len(record); i += 8 {
		if binary.BigEndian.Uint64(record[i:]) != number {
			return false
		}
	}
	return true
}
