// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package broadcast wakes all goroutines that wait for a change.
package broadcast

import "sync"

// Signal is sent to all goroutines that wait for it at that moment. The zero value is
// ready to use.
//
// To miss no change, take the channel before or together with the value whose change
// it signals.
type Signal struct {
	mu   sync.Mutex
	next chan struct{}
}

// Next returns a channel that is closed with the next Send.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Send closes the channels that Next has returned.
func (s *Signal) Send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
