// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/alioth-net/alioth/test/testtool/report"
)

// Series are the parameters of a series of echo requests.
type Series struct {
	Target netip.Addr
	// Interval between two requests.
	Interval time.Duration
	// Count of requests; 0 goes on until ctx ends.
	Count int
	// Wait for late replies after the last request.
	Wait time.Duration
}

// Ping sends the series and counts the replies. A request that the kernel refuses to send, for
// example while an address is missing, counts as lost.
func Ping(ctx context.Context, series Series) (report.Ping, error) {
	echoer, err := newEchoer(series.Target)
	if err != nil {
		return report.Ping{}, err
	}
	defer echoer.close()
	tally := &pingTally{}
	var receiver sync.WaitGroup
	receiver.Go(func() { tally.collect(echoer) })
	tally.send(ctx, echoer, series)
	tally.drain(series.Wait)
	echoer.close()
	receiver.Wait()
	return tally.report(series.Target), nil
}

// pingTally holds, for each request by number, when it was sent and how long
// its reply took; 0 for none.
type pingTally struct {
	mu         sync.Mutex
	sent       []time.Time
	rtt        []time.Duration
	received   int
	duplicates int
}

func (p *pingTally) send(ctx context.Context, echoer *echoer, series Series) {
	ticker := time.NewTicker(series.Interval)
	defer ticker.Stop()
	for number := 0; series.Count == 0 || number < series.Count; {
		if p.begin(time.Now()) {
			_ = echoer.send(uint64(number)) // not sent is lost: no reply will come
			number++
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// pending is how many requests in a row may wait for a reply. The buffer of a socket has room
// for some 270 replies: more would be lost while this process does not run.
const pending, pendingFor = 100, time.Second

// begin notes a request that is sent now. It reports whether the request may be sent: the last
// requests have a reply, or had the time for one.
func (p *pingTally) begin(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := len(p.sent) - pending; first >= 0 && now.Sub(p.sent[first]) < pendingFor {
		if !slices.ContainsFunc(p.rtt[first:], func(rtt time.Duration) bool { return rtt != 0 }) {
			return false
		}
	}
	p.sent = append(p.sent, now)
	p.rtt = append(p.rtt, 0)
	return true
}

func (p *pingTally) collect(echoer *echoer) {
	for {
		number, err := echoer.receive(time.Time{})
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.note(number, time.Now())
		}
	}
}

func (p *pingTally) note(number uint64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if number >= uint64(len(p.sent)) {
		return
	}
	if p.rtt[number] != 0 {
		p.duplicates++
		return
	}
	p.rtt[number] = max(now.Sub(p.sent[number]), 1)
	p.received++
}

// drain waits until every request has its reply, wait at most.
func (p *pingTally) drain(wait time.Duration) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); <-ticker.C {
		p.mu.Lock()
		done := p.received == len(p.sent)
		p.mu.Unlock()
		if done {
			return
		}
	}
}

func (p *pingTally) report(target netip.Addr) report.Ping {
	p.mu.Lock()
	defer p.mu.Unlock()
	result := report.Ping{Target: target.String(), Sent: len(p.sent), Received: p.received, Duplicates: p.duplicates}
	result.Lost = result.Sent - result.Received
	var replied []time.Duration
	gap := 0
	for _, rtt := range p.rtt {
		if rtt == 0 {
			gap++
			result.LongestGap = max(result.LongestGap, gap)
			continue
		}
		gap = 0
		replied = append(replied, rtt)
	}
	result.RTT = report.QuantilesOf(replied)
	return result
}

// FirstReply sends echo requests until one is answered and returns the time of
// that reply.
func FirstReply(ctx context.Context, target netip.Addr, interval time.Duration) (time.Time, error) {
	echoer, err := newEchoer(target)
	if err != nil {
		return time.Time{}, err
	}
	defer echoer.close()
	ctx, cancel := context.WithCancel(ctx)
	var sender sync.WaitGroup
	defer sender.Wait()
	defer cancel()
	sender.Go(func() { keepSending(ctx, interval, echoer.send) })
	defer context.AfterFunc(ctx, echoer.close)()
	for {
		_, err := echoer.receive(time.Time{})
		switch {
		case err == nil:
			return time.Now(), nil
		case errors.Is(err, net.ErrClosed):
			return time.Time{}, fmt.Errorf("wait for a reply of %s: %w", target, context.Cause(ctx))
		}
	}
}

// keepSending sends numbered requests until ctx ends, whether replies come or not. The first
// request that a target answers is at most an interval younger than the target.
func keepSending(ctx context.Context, interval time.Duration, send func(number uint64) error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for number := uint64(0); ; number++ {
		_ = send(number) // a request that is not sent has no reply
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
