// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"time"

	"github.com/alioth-net/alioth/api/quote"
)

// Problem describes what keeps a client from a lease, or from prolonging it.
type Problem struct {
	// Text is empty without a problem. It has at most quote.MaxQuoted bytes.
	Text  string
	Since time.Time
}

// Note notes a problem. The time of an unchanged one stays.
func (p *Problem) Note(now time.Time, text string) {
	if text = quote.Bounded(text, quote.MaxQuoted); p.Text != text {
		*p = Problem{Text: text, Since: now}
	}
}

const (
	// firstPause and lastPause bound the wait after a setback, which doubles.
	firstPause, lastPause = 4 * time.Second, 64 * time.Second
	// forgiven is how long a setback makes a client slower.
	forgiven = 10 * time.Minute
)

// Setbacks counts refusals and conflicts, so that a server that refuses all it offers costs
// little.
type Setbacks struct {
	count int
	last  time.Time
}

// Next counts one more, and returns how long the client waits before it starts again: not at
// all the first time, and longer each time within forgiven.
func (s *Setbacks) Next(now time.Time) time.Duration {
	if now.Sub(s.last) > forgiven {
		s.count = 0
	}
	wait := time.Duration(0)
	if s.count > 0 {
		wait = min(firstPause<<min(s.count-1, 4), lastPause)
	}
	s.count, s.last = s.count+1, now
	return wait
}
