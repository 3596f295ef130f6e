// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func fixed(name string, err error) Probe {
	return Probe{Name: name, Asked: "letter", Check: func(context.Context) error { return err }}
}

func TestProbeFailure_Text_QuestionAndStartTime(t *testing.T) {
	down := errors.New("no answer")
	list := []Probe{fixed("a", nil), fixed("b", down), fixed("c", nil)}
	if got := passing(t.Context(), list); !slices.Equal(got, []bool{true, false, true}) {
		t.Errorf("%v pass", got)
	}
	if err := Await(t.Context(), []Probe{list[0], list[2]}, time.Minute); err != nil {
		t.Error(err)
	}
	begun := time.Now().UTC().Truncate(time.Second)
	err := Await(t.Context(), list, time.Millisecond)
	if !errors.Is(err, down) {
		t.Fatalf("got %v", err)
	}
	text, found := strings.CutPrefix(err.Error(), "b does not answer since ")
	moment, rest, _ := strings.Cut(text, ", ")
	since, bad := time.Parse(time.RFC3339, moment)
	if !found || bad != nil || since.Before(begun) || rest != "asked by letter: no answer" {
		t.Errorf("got %v", err)
	}
}

func TestProbeFailure_SeveralAttempts_LastWholeAttemptsCause(t *testing.T) {
	refused := errors.New("refused")
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	p := Probe{Check: func(ctx context.Context) error {
		if calls++; calls == 1 {
			return refused
		}
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}
	if err := Await(ctx, []Probe{p}, time.Hour); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

func TestProbe_OneOfSeveralAnswers_Enough(t *testing.T) {
	down := errors.New("no answer")
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	no, yes := fixed("", down).Check, fixed("", nil).Check
	if err := anyOf([]func(context.Context) error{hangs, no, yes})(t.Context()); err != nil {
		t.Error(err)
	}
	if err := anyOf([]func(context.Context) error{no, no})(t.Context()); !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
}

func TestProbe_ConnectionReturnsSlowly_Awaited(t *testing.T) {
	var calls atomic.Int32
	slow := Probe{Name: "slow", Check: func(context.Context) error {
		if calls.Add(1) < 3 {
			return errors.New("not yet")
		}
		return nil
	}}
	if err := Await(t.Context(), []Probe{slow}, time.Minute); err != nil {
		t.Error(err)
	}
}

func TestProbe_ContextCanceled_WaitEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Await(ctx, []Probe{fixed("a", errors.New("no answer"))}, time.Hour); err == nil {
		t.Error("it passed")
	}
}
