// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package packets

import (
	"context"
	"fmt"
	"time"

	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// Payloads of datagrams: one fills a frame of every path but for a few bytes, the other leaves
// little but the costs of every packet.
const (
	fullDatagram  = 1300
	smallDatagram = 64
)

// Measure is one way to measure a path.
type Measure func(ctx context.Context, p Path, span time.Duration) (float64, error)

// Job is one row of a table: a quantity, and the paths that it is measured over.
type Job struct {
	row     *figures.Row
	measure Measure
	paths   []Path
}

// NewJob returns a job without measurements, whose bars are about Alioth.
func NewJob(what, unit, format string, measure Measure, paths []Path, bars ...figures.Bar) Job {
	return Job{figures.NewRow(what, unit, format, bars...), measure, paths}
}

// Stream measures the rate of one TCP stream.
func Stream(paths []Path, bars ...figures.Bar) Job {
	return NewJob("TCP stream", "Gbit/s", "%.2f", stream, paths, bars...)
}

// FullDatagrams measures the rate of datagrams that fill a frame.
func FullDatagrams(paths []Path, bars ...figures.Bar) Job {
	return datagrams(fullDatagram, paths, bars...)
}

// SmallDatagrams measures the rate of datagrams with little in them.
func SmallDatagrams(paths []Path, bars ...figures.Bar) Job {
	return datagrams(smallDatagram, paths, bars...)
}

// RoundTrip measures the time of a round trip on one TCP connection.
func RoundTrip(paths []Path, bars ...figures.Bar) Job {
	return NewJob("TCP round trip p50", "us", "%.1f", roundTrip, paths, bars...)
}

// Ping measures the time of an ICMP echo.
func Ping(paths []Path, bars ...figures.Bar) Job {
	return NewJob("ping p50", "us", "%.1f", echo, paths, bars...)
}

func stream(ctx context.Context, p Path, span time.Duration) (float64, error) {
	var result report.Load
	err := p.Ask(ctx, &result, "load", "tcp", p.To(report.PortSink), "--duration", span.String())
	return result.BitsPerSecond / 1e9, err
}

func datagrams(size int, paths []Path, bars ...figures.Bar) Job {
	measure := func(ctx context.Context, p Path, span time.Duration) (float64, error) {
		var result report.Load
		err := p.Ask(
			ctx,
			&result,
			"load",
			"udp",
			p.To(report.PortSink),
			"--duration",
			span.String(),
			"--size",
			fmt.Sprint(size),
		)
		return result.PacketsPerSecond / 1e3, err
	}
	return NewJob(fmt.Sprintf("UDP, %d bytes", size), "1000/s", "%.0f", measure, paths, bars...)
}

func roundTrip(ctx context.Context, p Path, span time.Duration) (float64, error) {
	var result report.Latency
	err := p.Ask(ctx, &result, "latency", p.To(report.PortRoundTrip), "--duration", span.String())
	return float64(result.RTT.P50.Nanoseconds()) / 1e3, err
}

func echo(ctx context.Context, p Path, span time.Duration) (float64, error) {
	var result report.Latency
	err := p.Ask(ctx, &result, "echo-latency", p.Address.String(), "--duration", span.String())
	return float64(result.RTT.P50.Nanoseconds()) / 1e3, err
}

// measureOnce measures every path, beginning with another one each turn.
func (j Job) measureOnce(ctx context.Context, turn int, span time.Duration) error {
	for i := range j.paths {
		p := j.paths[(i+turn)%len(j.paths)]
		value, err := j.measure(ctx, p, span)
		if err != nil {
			return err
		}
		j.row.Add(p.Name, value)
	}
	return nil
}
