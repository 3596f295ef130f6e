// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Times of the election. A successor looks every retryPeriod, stretched by up
// to a fifth, and waits until it has seen the same renewal for leaseDuration:
// it leads at most leaseDuration + 2 * 1.2 * retryPeriod = 8.4 s after the last
// renewal of a leader that was killed.
const (
	leaseDuration = 6 * time.Second
	// renewDeadline is how long the leader tries to renew its lease before it
	// stops writing.
	renewDeadline = 4 * time.Second
	retryPeriod   = time.Second
)

// leaseName is the name of the Lease that the leader holds.
const leaseName = "alioth-operator"

// errNotLeading is what a write gets that comes too late.
var errNotLeading = errors.New("this process does not hold the lease, so it does not write")

// lease is the lock of one term. It knows until when this process may write,
// whatever the elector has noticed so far: a process that was stopped and goes
// on has workers that still believe that it leads.
type lease struct {
	resourcelock.Interface
	// late is called when something is to be written after the lease ran out:
	// the elector may take until renewDeadline to find out.
	late func()

	mu    sync.Mutex
	until time.Time
	ended bool
}

// newLease returns the lock of a term of the process of that identity; late is
// to end the term.
func newLease(config *rest.Config, namespace, identity string, late func()) (*lease, error) {
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: identity}, config, renewDeadline)
	if err != nil {
		return nil, err
	}
	return &lease{Interface: lock, late: late}, nil
}

// Create implements resourcelock.Interface.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.hold(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.hold(record, func() error { return l.Interface.Update(ctx, record) })
}

// hold counts the time from before the request, so that it is over here before
// it is over for anybody who sees the record.
func (l *lease) hold(record resourcelock.LeaderElectionRecord, write func() error) error {
	began := time.Now()
	if record.HolderIdentity != l.Identity() {
		l.end() // before others may know
	}
	if err := write(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.until = began.Add(time.Duration(record.LeaseDurationSeconds) * time.Second)
	}
	return nil
}

// end ends the term for good: what is left of it writes nothing more.
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

// guard lets requests that change something pass only while the lease is held.
// What was sent before is up to the preconditions that every write carries.
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
		_ = request.Body.Close() // nobody has read from it
	}
	g.lease.late()
	return nil, errNotLeading
}
