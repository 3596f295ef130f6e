// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
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
	// left is how many cases have not ended; waiting are those that await the next step.
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
		func() error { return o.end(ctx, l) },
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
