// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// defaultLease and leastLease are durations of the lease. A successor looks every
// retryPeriod, stretched by up to a fifth, and waits until it has seen the same renewal for
// the lease's duration: by default it leads at most 5 s + 2 * 1.2 * 0.5 s = 6.2 s after the last
// renewal of a leader that was killed, and the time of its requests.
const defaultLease, leastLease = 5 * time.Second, 3 * time.Second

// retryPeriod is the pause after a renewal, or after a failed attempt.
func (c Config) retryPeriod() time.Duration { return c.LeaseDuration / 10 }

// renewDeadline is how long the leader tries to renew its lease. The first attempt is one
// retryPeriod after the last renewal, so the leader stops one retryPeriod before its lease ends.
func (c Config) renewDeadline() time.Duration { return c.LeaseDuration - 2*c.retryPeriod() }

// leaseTimeout bounds one request for the lease. A request that hangs leaves time for others, and a
// request that is slow may succeed.
func (c Config) leaseTimeout() time.Duration { return c.LeaseDuration * 2 / 5 }

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
	// holder is whom the last record names that was read or written. Only the elector uses it.
	holder string

	mu    sync.Mutex
	until time.Time
	ended bool
}

// newLease returns the lock of a term of the process of that identity; late is
// to end the term.
func newLease(config *rest.Config, cfg Config, identity string, late func()) (*lease, error) {
	client, err := coordinationv1.NewForConfig(leaseClient(config, cfg.leaseTimeout()))
	if err != nil {
		return nil, err
	}
	return &lease{late: late, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: cfg.Namespace, Name: leaseName},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}}, nil
}

// leaseClient returns a configuration whose requests share no connection with those of the
// operator, and no connection with each other at one time. HTTP/1.1 has one request at a time on
// a connection, and a request that is given up closes its connection. With HTTP/2 all
// requests would be on one connection, behind lists of any size, and a connection that hangs would
// be used again.
func leaseClient(config *rest.Config, timeout time.Duration) *rest.Config {
	own := rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	own.NextProtos = []string{"http/1.1"}
	own.Timeout = timeout
	return own
}

// Get implements resourcelock.Interface.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.holder = record.HolderIdentity
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.hold(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface. An elector whose requests have failed until its
// lease ended gives up what it reads then, which may be the lease of a successor.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && l.holder != l.Identity() {
		l.end()
		return errNotHeld
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
	l.holder = record.HolderIdentity
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.until = began.Add(time.Duration(record.LeaseDurationSeconds) * time.Second)
	}
	return nil
}

// end ends the term for good: its remaining workers can't write.
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
		_ = request.Body.Close() // nobody has read from it
	}
	g.lease.late()
	return nil, errNotLeading
}
