// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// defaultLease and leastLease are durations of the lease. A successor learns of a renewal from a
// watch, looks at the last renewal each lookPeriod, stretched by up to a fifth, and waits until it
// has seen the same renewal for the lease's duration: by default it leads at most 5 s + 2 * 1.2 *
// 0.1 s = 5.24 s after the last renewal of a leader that was killed, plus the time of an event and
// a write.
const defaultLease, leastLease = 5 * time.Second, 3 * time.Second

// renewPeriod returns the time between two renewals, and between two reads that the watch does not
// answer.
func (c Config) renewPeriod() time.Duration { return c.LeaseDuration / 10 }

// lookPeriod returns the time between two looks at the lease. Most looks cost no request.
func (c Config) lookPeriod() time.Duration { return c.LeaseDuration / 50 }

// renewDeadline is how long the leader tries to renew its lease. It begins one lookPeriod after the
// last renewal, so the leader stops before its lease ends.
func (c Config) renewDeadline() time.Duration { return c.LeaseDuration - c.renewPeriod() }

// hedgeAfter is how long a request for the lease may take before a second one is sent.
func (c Config) hedgeAfter() time.Duration { return c.LeaseDuration * 3 / 10 }

// leaseName is the name of the Lease that the leader holds.
const leaseName = "alioth-operator"

// errNotHeld is the error of giving up a lease that another process holds.
var errNotHeld = errors.New("another process holds the lease, so this one does not give it up")

// errNotLeading is the error of a write after the lease has ended.
var errNotLeading = errors.New("this process does not hold the lease, so it does not write")

// lease is the lock of one term. It has the time until which this process may write,
// independent of the elector: after a process was frozen and thawed, its workers run
// although the lease may have ended.
type lease struct {
	resourcelock.Interface
	// late is called on a write after the end of the lease: the elector may notice the
	// end only after renewDeadline.
	late func()
	// renewEvery is the time between two renewals.
	renewEvery time.Duration
	// holder is the holder in the last record that was read or written, and due is the time of the
	// next renewal. Only the elector uses them.
	holder string
	due    time.Time
	// known is true once a record was read or written.
	known atomic.Bool

	mu    sync.Mutex
	until time.Time
	ended bool
	// refusal is why the term had to end, nil if it had not.
	refusal error
}

// newLease returns the lock of a term for the process with an identity; late ends the term. The
// lock follows the Lease until ctx ends.
func newLease(ctx context.Context, config *rest.Config, cfg Config, identity string, late func()) (*lease, error) {
	l := &lease{late: late, renewEvery: cfg.renewPeriod()}
	client, err := watchLease(ctx, config, cfg, l.refuse)
	if err != nil {
		return nil, err
	}
	l.Interface = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: cfg.Namespace, Name: leaseName},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	return l, nil
}

// refuse ends the term for a reason.
func (l *lease) refuse(why error) {
	l.mu.Lock()
	l.refusal = why
	l.mu.Unlock()
	l.end()
	l.late()
}

// ending returns the reason of the term's end, as far as the lease has caused it. The lease may be
// nil.
func (l *lease) ending() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal
}

// Get implements resourcelock.Interface.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.holder = record.HolderIdentity
		l.known.Store(true)
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.hold(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface. An elector whose requests have failed until its lease
// ended releases the lease that it reads then, which may be the lease of a successor. Update
// refuses this. The elector renews as often as it looks, so a renewal waits until it is due.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && l.holder != l.Identity() {
		l.end()
		return errNotHeld
	}
	if record.HolderIdentity == l.Identity() {
		if err := waitUntil(ctx, l.due); err != nil {
			return err
		}
	}
	return l.hold(record, func() error { return l.Interface.Update(ctx, record) })
}

// hold counts the time from before the request, so that the lease ends here before it
// ends for processes that read the record.
func (l *lease) hold(record resourcelock.LeaderElectionRecord, write func() error) error {
	began := time.Now()
	if record.HolderIdentity != l.Identity() {
		l.end() // before other processes can read it
	}
	if err := write(); err != nil {
		return err
	}
	l.holder, l.due = record.HolderIdentity, began.Add(l.renewEvery)
	l.known.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.until = began.Add(time.Duration(record.LeaseDurationSeconds) * time.Second)
	}
	return nil
}

// end ends the term: its remaining workers can't write any more.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.until = true, time.Time{}
}

func (l *lease) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}

// guard lets writes pass only while the lease is held. The preconditions of every write
// protect against requests that were sent before.
func (l *lease) guard(next http.RoundTripper) http.RoundTripper {
	return guarded{lease: l, next: next}
}

type guarded struct {
	lease *lease
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || g.lease.held() {
		return g.next.RoundTrip(request)
	}
	if request.Body != nil {
		_ = request.Body.Close() // the body has not been read
	}
	g.lease.late()
	return nil, errNotLeading
}
