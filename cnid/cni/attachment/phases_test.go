// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment //nolint:testpackage // phases and failures are inner steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

func TestAttach_PodLifecycle_PhasesInOrder(t *testing.T) {
	danm, definition := &ifdriver.Delegate{}, &ifdriver.Delegate{InOrder: true}
	for name, c := range map[string]struct {
		delegates []*ifdriver.Delegate
		want      []phase
	}{
		"one interface": {[]*ifdriver.Delegate{nil}, []phase{{indexes: []int{0}}}},
		"plugins only":  {[]*ifdriver.Delegate{danm, danm}, []phase{{indexes: []int{0, 1}, whole: true}}},
		"all three sorts": {
			[]*ifdriver.Delegate{danm, nil, definition, danm, definition, nil},
			[]phase{{indexes: []int{1, 5}}, {indexes: []int{0, 3}, whole: true}, {indexes: []int{2}}, {indexes: []int{4}}},
		},
	} {
		var decisions []Decision
		for _, delegate := range c.delegates {
			decisions = append(decisions, Decision{Delegate: delegate})
		}
		got := phasesOf(decisions)
		if !slices.EqualFunc(got, c.want, func(a, b phase) bool { return a.whole == b.whole && slices.Equal(a.indexes, b.indexes) }) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A failure ends the others of its phase, or nobody but itself.
func TestAttach_PhaseFailure_EndsPhaseOrOneInterface(t *testing.T) {
	broken := errors.New("broken")
	for _, whole := range []bool{false, true} {
		p := phase{indexes: []int{0, 1}, whole: whole}
		failed := make(chan struct{})
		var mu sync.Mutex
		var seen error
		err := p.run(t.Context(), func(ctx context.Context, i int) error {
			if i == 0 {
				defer close(failed)
				return broken
			}
			<-failed
			if !whole {
				<-ctx.Done() // or the test never ends
			}
			mu.Lock()
			defer mu.Unlock()
			seen = ctx.Err()
			return ctx.Err()
		})
		if err != broken || errors.Is(seen, context.Canceled) == whole { //nolint:errorlint // the one failure is unchanged
			t.Errorf("whole %t: %v; the other one saw %v", whole, err, seen)
		}
	}
}

func TestAttach_SeveralFailures_AllReported(t *testing.T) {
	one, two, gone := errors.New("the pool of net1 is empty"), errors.New("no device\nens9"), context.Canceled
	later := &NotReady{Reason: "net3 did not end in time"}
	for name, c := range map[string]struct {
		errs     []error
		want     string
		notReady bool
	}{
		"none":                   {[]error{nil, nil}, "", false},
		"one":                    {[]error{nil, one}, "the pool of net1 is empty", false},
		"one and a cancellation": {[]error{gone, one}, "the pool of net1 is empty", false},
		"cancellations":          {[]error{gone, nil}, "context canceled", false},
		"two in their order":     {[]error{two, nil, one}, "2 interfaces failed: no device ens9; the pool of net1 is empty", false},
		"one may soon be over":   {[]error{one, later}, "network is not ready - 2 interfaces failed: the pool of net1 is empty; net3 did not end in time", true},
	} {
		err := failure(c.errs)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if _, notReady := errors.AsType[*NotReady](err); text != c.want || notReady != c.notReady {
			t.Errorf("%s: %q, soon over: %t; want %q", name, text, notReady, c.want)
		}
	}
	if err := failure([]error{one, fmt.Errorf("x: %w", ErrPodGone)}); !errors.Is(err, ErrPodGone) || !errors.Is(err, one) {
		t.Errorf("%v can't be matched", err)
	}
}

// TestFailureMessage_ManyFailures_FitsEvent of the runtime, which adds some words to it.
func TestFailureMessage_ManyFailures_FitsEvent(t *testing.T) {
	for _, n := range []int{2, 3, 7} {
		errs := make([]error, n)
		for i := range errs {
			errs[i] = fmt.Errorf("attach net%d: %s", i, strings.Repeat("x", 5000))
		}
		text := failure(errs).Error()
		if len(text) > maxFailures+64 {
			t.Errorf("the message of %d failures has %d bytes", n, len(text))
		}
		for i := range errs {
			if !strings.Contains(text, fmt.Sprintf("attach net%d: xxx", i)) {
				t.Errorf("the message of %d failures lacks that of net%d", n, i)
			}
		}
	}
}
