// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package waits_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alioth-net/alioth/test/waits"
)

func TestLimit_Factor_Followed(t *testing.T) {
	for value, want := range map[string]int{"": 1, "1": 1, "2": 2, "8": 8, "100": waits.Most, "0": 1, "-3": 1, "much": 1} {
		t.Setenv(waits.Variable, value)
		if got := waits.Limit(time.Second); got != time.Duration(want)*time.Second {
			t.Errorf("with %s=%q a limit of 1s is %s, want %ds", waits.Variable, value, got, want)
		}
	}
	t.Setenv(waits.Variable, "4")
	deadline, ok := waits.Within(t, time.Hour).Deadline()
	if left := time.Until(deadline); !ok || left < 3*time.Hour {
		t.Errorf("a context of an hour ends after %s", left)
	}
}

// failing is a test that fails as the package wants.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, arguments ...any) {
	f.text = fmt.Sprintf(format, arguments...)
	runtime.Goexit()
}

// fails returns the output of a failing test.
func fails(t *testing.T, wait func(*failing)) string {
	t.Helper()
	f, ended := &failing{TB: t}, make(chan struct{})
	go func() {
		defer close(ended)
		wait(f)
	}()
	<-ended
	return f.text
}

func TestUntil_ConditionOrLimit_Ends(t *testing.T) {
	seen := 0
	check := func() error {
		if seen++; seen < 4 {
			return errors.New("too few")
		}
		return nil
	}
	waits.Until(t, time.Minute, "there are four", check)
	waits.True(t, time.Minute, "there are eight", func() bool { seen++; return seen >= 8 })
	if seen != 8 {
		t.Errorf("looked %d times, want 8", seen)
	}
	never := func() error { return errors.New("too few") }
	if text := fails(t, func(f *failing) { waits.Until(f, time.Millisecond, "there are more", never) }); !strings.HasSuffix(
		text,
		"until there are more: too few",
	) {
		t.Errorf("a wait in vain says %q", text)
	}
	if text := fails(t, func(f *failing) { waits.True(f, 0, "there are more", func() bool { return false }) }); !strings.HasSuffix(
		text,
		"until there are more: not so yet",
	) {
		t.Errorf("a wait in vain says %q", text)
	}
}

// TestUntil_SlowCheck_Repeated: its machine is busy, and the limit is over before the second check.
func TestUntil_SlowCheck_Repeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := 0
		waits.Until(t, time.Second, "there are ten", func() error {
			<-time.After(2 * time.Second)
			if seen++; seen < 10 {
				return errors.New("too few")
			}
			return nil
		})
		began, never := time.Now(), func() bool { <-time.After(2 * time.Second); return false }
		fails(t, func(f *failing) { waits.True(f, time.Second, "there are more", never) })
		if waited := time.Since(began); waited < 30*time.Second || waited > time.Minute {
			t.Errorf("a wait in vain ends after %s", waited)
		}
	})
}

func TestReceive_ValueOrNone_ReceivedOrMissed(t *testing.T) {
	filled, closed := make(chan int, 1), make(chan int)
	filled <- 7
	close(closed)
	if got := waits.Receive(t, time.Minute, "a value", filled) + waits.Receive(t, time.Minute, "the end", closed); got != 7 {
		t.Errorf("received %d, want 7", got)
	}
	if text := fails(t, func(f *failing) { waits.Receive(f, time.Millisecond, "a value comes", filled) }); !strings.HasSuffix(text, "until a value comes") {
		t.Errorf("a wait in vain says %q", text)
	}
}
