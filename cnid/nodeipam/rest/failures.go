// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"sync"
	"time"
)

const (
	// over is the time after its last failure that ends a state of a pod. Clients ask again
	// within seconds.
	over = 10 * time.Minute
	// mostFailures bounds the memory of logged messages.
	mostFailures = 1024
)

// failures remembers which failures were logged, so that each is one line of the log, however
// often a client asks again. The zero value remembers nothing.
type failures struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// news reports whether a failure is to be logged.
func (m *failures) news(failure string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.last[failure]
	if !known && len(m.last) >= mostFailures {
		m.forget(now)
	}
	if m.last == nil {
		m.last = map[string]time.Time{}
	}
	m.last[failure] = now
	return !known || now.Sub(last) > over
}

// forget drops entries that are over, and everything if no entry is.
func (m *failures) forget(now time.Time) {
	for failure, last := range m.last {
		if now.Sub(last) > over {
			delete(m.last, failure)
		}
	}
	if len(m.last) >= mostFailures {
		m.last = nil
	}
}
