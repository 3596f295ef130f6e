// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alioth-net/alioth/test/testtool/blocking"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// RoundTrip sends one byte and waits for one byte, again and again over one
// TCP connection, for the given time.
func RoundTrip(ctx context.Context, target string, duration time.Duration) (report.Latency, error) {
	conn, err := dialSink(ctx, target)
	if err != nil {
		return report.Latency{}, err
	}
	defer conn.Close()
	if err := conn.SetNoDelay(true); err != nil {
		return report.Latency{}, err
	}
	socket, err := blocking.New(conn)
	if err != nil {
		return report.Latency{}, err
	}
	defer socket.Close()
	defer watchdog(ctx, duration, socket)()
	one := []byte{1}
	return exchange(ctx, target, duration, func() error {
		if _, err := socket.Write(one); err != nil {
			return fmt.Errorf("send request: %w", err)
		}
		if _, err := socket.Read(one); err != nil {
			return fmt.Errorf("read response: %w", err)
		}
		return nil
	})
}

// watchdog shuts the socket down when ctx ends, or long after the run should have ended,
// because a blocking read has no deadline.
func watchdog(ctx context.Context, duration time.Duration, socket *blocking.Socket) (stop func() bool) {
	ctx, cancel := context.WithTimeout(ctx, duration+10*time.Second)
	release := context.AfterFunc(ctx, socket.ShutDown)
	return func() bool {
		stopped := release()
		cancel()
		return stopped
	}
}

// exchange repeats one exchange for the given time. The end of ctx is an error.
func exchange(ctx context.Context, target string, duration time.Duration, once func() error) (report.Latency, error) {
	series := make([]time.Duration, 0, 1<<20)
	start := time.Now()
	for last := start; last.Sub(start) < duration; {
		if err := errors.Join(ctx.Err(), once()); err != nil {
			return report.Latency{}, err
		}
		now := time.Now()
		series = append(series, now.Sub(last))
		last = now
	}
	took := time.Since(start)
	return report.Latency{
		Target: target, Transactions: int64(len(series)), Duration: took,
		PerSecond: float64(len(series)) / took.Seconds(), RTT: report.QuantilesOf(series),
	}, nil
}
