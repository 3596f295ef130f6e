// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
)

// lasting is how long passes must fail before Ready reports the failure.
const lasting = time.Minute

// Progress has the requests for passes, and the results of passes. The zero value is
// ready to use, before the first pass.
type Progress struct {
	mu sync.Mutex
	// thorough reports that the next pass has to compare everything.
	thorough bool
	// asked counts the requests for a pass; programmed is the count that was included
	// in the last pass that did not fail for the node as a whole.
	asked, programmed uint64
	// failed are the devices that the last pass could not set up or rejected.
	failed map[int]error
	// passing is the start of the running pass, done the time of the last success.
	passing, done time.Time
	// lastError of the passes since failing, which is zero after a success; the
	// failures of single devices are not among them. problem has those as well.
	lastError, problem error
	failing            time.Time
	// devices are the indexes of those that exist always, and of the underlay.
	devices []int
	// mtu for pods, 0 before the first successful pass.
	mtu int
	// roles holds the report about roles after the last success.
	roles plan.Roles
	// adopted reports that the journal has been compared with the node.
	adopted bool
	// asking and passed are sent with a request and with the end of a pass.
	asking, passed broadcast.Signal
}

// Ask requests a pass and returns the number that the pass will have programmed.
func (p *Progress) Ask() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ask()
}

// ask is called with mu held.
func (p *Progress) ask() uint64 {
	p.asked++
	p.asking.Send()
	return p.asked
}

// Recheck requests a pass that compares everything in the kernel.
func (p *Progress) Recheck() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thorough = true
	p.ask()
}

// takeRecheck reports whether Recheck was called since the last call of takeRecheck.
func (p *Progress) takeRecheck() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.thorough
	p.thorough = false
	return asked
}

// pending reports whether a pass was requested that is not among the first upTo, and
// returns a channel that is closed with the next request.
func (p *Progress) pending(upTo uint64) (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked != upTo, p.asking.Next()
}

// settle returns once a pass with that request, or a later one, has succeeded, and the
// last pass has set up this device; 0 stands for none. After a failed pass it waits for
// the next ones.
func (p *Progress) settle(ctx context.Context, number uint64, device int) error {
	for {
		p.mu.Lock()
		done, passed, failure := p.programmed >= number, p.passed.Next(), errors.Join(p.failed[device], p.lastError)
		done = done && p.failed[device] == nil
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-passed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the datapath: %w", errors.Join(ctx.Err(), failure))
		}
	}
}

// Programmed returns once a pass that begins from now on has succeeded.
func (p *Progress) Programmed(ctx context.Context) error { return p.settle(ctx, p.Ask(), 0) }

// PodMTU returns the MTU for pods, 0 before the first successful pass, and a
// channel that is closed when it may have changed.
func (p *Progress) PodMTU() (int, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mtu, p.passed.Next()
}

// AwaitFirst returns true once a pass has succeeded, or false when ctx ends.
func (p *Progress) AwaitFirst(ctx context.Context) bool {
	for {
		mtu, passed := p.PodMTU()
		if mtu != 0 {
			return true
		}
		select {
		case <-passed:
		case <-ctx.Done():
			return false
		}
	}
}

// Ready returns nil, or the error of the passes that have failed for the node as a
// whole for a minute or longer.
func (p *Progress) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastError == nil || time.Since(p.failing) < lasting {
		return nil
	}
	return fmt.Errorf("programming the node has failed for %s: %w", time.Since(p.failing).Round(time.Second), p.lastError)
}

// Serving reports whether the node serves the objects of the API: a pass has succeeded,
// and none has failed or hung for the time that Ready allows. It returns the time of
// the last success, the zero value before the first success.
func (p *Progress) Serving() (since time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := func(since time.Time) bool { return !since.IsZero() && time.Since(since) >= lasting }
	return p.done, p.mtu != 0 && !late(p.failing) && !late(p.passing)
}

// Problem returns the reason why the kernel cannot be programmed now, or "".
func (p *Progress) Problem() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.problem == nil {
		return ""
	}
	return p.problem.Error()
}

// Devices returns the indexes of the devices that exist always, and of the underlay;
// none before the first pass.
func (p *Progress) Devices() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.devices)
}

// Adopted reports whether the attachments that existed on the node without a record are
// in the journal now.
func (p *Progress) Adopted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.adopted
}

// Roles returns what to report about roles after the last successful pass, with false
// before the first one, and a channel that is closed after the next pass.
func (p *Progress) Roles() (plan.Roles, bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roles, !p.done.IsZero(), p.passed.Next()
}

func (p *Progress) setAdopted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.adopted = true
}

// begin notes the start of a pass, and returns the number of requests that the pass
// includes.
func (p *Progress) begin() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passing = time.Now()
	return p.asked
}

// finish stores the result of a pass, and wakes all waiting calls.
func (p *Progress) finish(o outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passing = time.Time{}
	if o.err == nil {
		p.done = time.Now()
		p.programmed, p.failing, p.mtu, p.roles = o.upTo, time.Time{}, o.mtu, o.roles
		p.failed = map[int]error{}
		maps.Copy(p.failed, o.failed)
		for _, l := range o.lost {
			p.failed[l.Record.Device.HostIfindex] = fmt.Errorf("%w: %s", plan.ErrLost, l.Reason)
		}
	} else if p.lastError == nil {
		p.failing = time.Now()
	}
	p.lastError, p.problem, p.devices = o.err, o.failure(), o.devices
	p.passed.Send()
}
