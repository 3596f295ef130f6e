// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alioth-net/alioth/test/e2e/stage"
)

// outage is a time without a part of the cluster, which several cases go through together: all
// of them prepare, the outage begins, each case acts meanwhile, the outage ends, and each
// case looks at the result. So the time of the outage is spent once.
type outage struct {
	// begin and end return when the cluster is so.
	begin, end func(context.Context, *lab) error

	mu sync.Mutex
	// left is how many cases have not ended; waiting are the cases that await the next step.
	left    int
	waiting []chan error
	steps   []func() error
}

// through runs cases as subtests at the same time. A subtest that `go test -run` leaves out
// ends at once, and no other waits for it.
func (o *outage) through(t *testing.T, l *lab, cases []Report) {
	ctx := stage.Within(t, 3*stage.Patience)
	o.left = len(cases)
	o.steps = []func() error{
		func() error { return o.begin(ctx, l) },
		func() error { return o.end(stage.Within(t, stage.Patience), l) }, // also after cases that took all their time
	}
	var all sync.WaitGroup
	for _, r := range cases {
		all.Go(func() {
			defer o.leave()
			t.Run(r.Name, func(t *testing.T) { r.run(t, l) })
		})
	}
	all.Wait()
	if len(o.steps) == 1 { // every case has failed meanwhile
		if err := o.steps[0](); err != nil {
			t.Error(err)
		}
	}
}

// during has the outage happen, and a case act meanwhile.
func (o *outage) during(t *testing.T, act func()) {
	t.Helper()
	o.await(t)
	act()
	o.await(t)
}

// await returns after the next step, which is done when all cases await it.
func (o *outage) await(t *testing.T) {
	t.Helper()
	done := make(chan error, 1)
	o.mu.Lock()
	o.waiting = append(o.waiting, done)
	o.stepIfAllWait()
	o.mu.Unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// leave is the end of a case.
func (o *outage) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left--
	o.stepIfAllWait()
}

func (o *outage) stepIfAllWait() {
	if len(o.waiting) == 0 || len(o.waiting) < o.left {
		return
	}
	err := errors.New("the outage is over")
	if len(o.steps) > 0 {
		err = o.steps[0]()
		o.steps = o.steps[1:]
	}
	for _, done := range o.waiting {
		done <- err
	}
	o.waiting = nil
}

// TestOutage_SeveralCases_HappensOnce has cases that end at different moments.
func TestOutage_SeveralCases_HappensOnce(t *testing.T) {
	var mu sync.Mutex
	var answers []string
	say := func(word string) {
		mu.Lock()
		defer mu.Unlock()
		answers = append(answers, word)
	}
	step := func(word string) func(context.Context, *lab) error {
		return func(context.Context, *lab) error { say(word); return nil }
	}
	o := &outage{begin: step("begins"), end: step("ends")}
	through := func(name string) Report {
		return Report{Name: name, Run: func(t *testing.T, _ *lab) {
			say("prepares")
			o.during(t, func() { say("acts") })
			say("looks")
		}}
	}
	before := Report{Name: "ends before", Run: func(t *testing.T, _ *lab) { t.Skip() }}
	meanwhile := Report{Name: "ends meanwhile", Run: func(t *testing.T, _ *lab) { o.during(t, func() { t.Skip() }) }}

	o.through(t, nil, []Report{before, through("one"), meanwhile, through("other")})
	if want := strings.Fields("prepares prepares begins acts acts ends looks looks"); !slices.Equal(answers, want) {
		t.Errorf("the order is %q, want %q", answers, want)
	}
	answers = nil
	o.through(t, nil, []Report{meanwhile})
	if want := []string{"begins", "ends"}; !slices.Equal(answers, want) {
		t.Errorf("where all cases end meanwhile, the order is %q, want %q", answers, want)
	}
	answers = nil
	o.through(t, nil, []Report{before})
	if len(answers) > 0 {
		t.Errorf("without a case that awaits it there is %q", answers)
	}
}
