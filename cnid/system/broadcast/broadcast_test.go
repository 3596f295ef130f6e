// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package broadcast

import "testing"

func TestBroadcast_Signal_WakesOnlyCurrentWaiters(t *testing.T) {
	var s Signal
	s.Send() // no waiting call
	first, second := s.Next(), s.Next()
	for _, waiting := range []<-chan struct{}{first, second} {
		select {
		case <-waiting:
			t.Error("woken before it was sent")
		default:
		}
	}
	s.Send()
	<-first
	<-second
	select {
	case <-s.Next():
		t.Error("woken by what was sent before")
	default:
	}
}
