// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/waits"
)

// Traffic is a long stream from one pod to an address, and may include a fast ping. Both run until
// the test stops them.
type Traffic struct {
	name   string
	flows  []*Running
	stream report.Stream
	ping   *report.Ping
}

// Interval returns the time between two records or pings of traffic: a millisecond, multiplied by the
// factor of the machine. On a slow machine shorter intervals take the processors from the system
// under test, and the flow is not denser.
func Interval() string { return waits.Limit(time.Millisecond).String() }

// StartTraffic starts a stream and a fast ping, and returns once the stream flows.
func (e *Env) StartTraffic(ctx context.Context, t *testing.T, name string, from *corev1.Pod, to netip.Addr) *Traffic {
	t.Helper()
	tr := e.StartStream(ctx, t, name, from, to)
	tr.ping = &report.Ping{}
	tr.flows = append(
		tr.flows,
		e.begin(ctx, from, tr.ping, "/tmp/"+Unique("stop"), "ping", to.String(), "--interval", Interval(), "--wait", "3s"),
	)
	return tr
}

// StartStream starts a stream alone: the address of a Service answers no ping.
func (e *Env) StartStream(ctx context.Context, t *testing.T, name string, from *corev1.Pod, to netip.Addr) *Traffic {
	t.Helper()
	tr := &Traffic{name: name}
	return e.flows(
		ctx,
		t,
		tr,
		e.Begin(ctx, from, &tr.stream, "stream", netip.AddrPortFrom(to, report.PortStream).String(), "--interval", Interval()),
	)
}

// StartStreamFromHost starts a stream from a host of the underlay to a port.
func (e *Env) StartStreamFromHost(
	ctx context.Context,
	t *testing.T,
	name string,
	from *cluster.Host,
	to netip.AddrPort,
) *Traffic {
	t.Helper()
	tr := &Traffic{name: name}
	return e.flows(ctx, t, tr, e.BeginOnHost(ctx, from, &tr.stream, "stream", to.String(), "--interval", Interval()))
}

// flows adds a stream to traffic, and returns once it flows.
func (e *Env) flows(ctx context.Context, t *testing.T, tr *Traffic, flow *Running) *Traffic {
	t.Helper()
	tr.flows = append(tr.flows, flow)
	if err := e.AwaitBegun(ctx, flow); err != nil {
		t.Fatalf("%s: %v", tr.name, err)
	}
	return tr
}

// ExpectUnharmed stops the traffic and requires that no connection broke and at most one
// packet got lost.
func (e *Env) ExpectUnharmed(t *testing.T, tr *Traffic) {
	t.Helper()
	for _, flow := range tr.flows {
		if err := e.End(Within(t, Patience), flow); err != nil {
			t.Errorf("%s: %v", tr.name, err)
			return
		}
	}
	s := tr.stream
	t.Logf("%s: %d records, longest silence %s", tr.name, s.Sent, s.LongestSilence.Round(time.Millisecond))
	if s.Reconnects != 0 || s.Corrupt != 0 || s.Returned != s.Sent || s.Sent < 100 {
		t.Errorf("%s: the stream was harmed: %+v", tr.name, s)
	}
	if p := tr.ping; p != nil {
		t.Logf("%s: %d pings, %d lost, longest gap %d", tr.name, p.Sent, p.Lost, p.LongestGap)
		if p.Lost > 1 || p.Sent < 100 {
			t.Errorf("%s: the ping was harmed: %+v", tr.name, *p)
		}
	}
}
