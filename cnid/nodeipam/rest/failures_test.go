// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"testing"
	"time"
)

// TestFailureLog_LastingFailure_LoggedOnce: a client asks each second.
func TestFailureLog_LastingFailure_LoggedOnce(t *testing.T) {
	var m failures
	at := time.Unix(0, 0)
	logged := 0
	for range 3600 {
		at = at.Add(time.Second)
		if m.news("network is not ready - pod a/p waits", at) {
			logged++
		}
	}
	if logged != 1 {
		t.Errorf("%d lines about one state", logged)
	}
	if !m.news("network is not ready - pod a/q waits", at) || !m.news("network is not ready - pod a/p waits", at.Add(over+time.Second)) {
		t.Error("another state, or the same one later, is not logged")
	}
}

func TestFailureLog_ManyFailures_MemoryBounded(t *testing.T) {
	var m failures
	for i := range 10 * mostFailures {
		if !m.news(fmt.Sprint(i), time.Unix(int64(i), 0)) {
			t.Fatalf("failure %d is taken for a known one", i)
		}
		if len(m.last) > mostFailures {
			t.Fatalf("%d failures are remembered", len(m.last))
		}
	}
}
