// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// followed is the client of the Lease in one term. It answers reads from a watch, so that a
// replica that stands by learns of each renewal at once, and looks as often as it likes. The
// watch may be late: a write of what it has read is a conflict then, and the reads that follow ask
// the API server, until the watch has what the API server has.
type followed struct {
	coordination.LeaseInterface
	// watched returns what the watch has, nil before it has anything.
	watched func() *coordinationv1.Lease
	// pause is the time between two reads, and late when a request is sent a second time.
	pause, late time.Duration
	// doubted is true from a write on, and next the time of the next read of the API server.
	// Only the elector uses them.
	doubted bool
	next    time.Time
}

// followLease returns the client of the Lease, whose watch ends with ctx.
func followLease(ctx context.Context, config *rest.Config, cfg Config) (*followed, error) {
	client, err := coordination.NewForConfig(leaseConfig(config, "http/1.1", cfg.renewDeadline()))
	if err != nil {
		return nil, err
	}
	watchConfig := leaseConfig(config, "h2", 0)
	watchConfig.Wrap(newPresentLists)
	watching, err := coordination.NewForConfig(watchConfig)
	if err != nil {
		return nil, err
	}
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, leaseName)
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(watching.RESTClient(), "leases", cfg.Namespace, only),
		Handler:       cache.ResourceEventHandlerFuncs{},
	})
	go informer.RunWithContext(ctx)
	key := cache.NewObjectName(cfg.Namespace, leaseName).String()
	watched := func() *coordinationv1.Lease {
		object, _, _ := store.GetByKey(key) // of a store in memory, which has no errors
		lease, _ := object.(*coordinationv1.Lease)
		return lease
	}
	return &followed{
		LeaseInterface: client.Leases(cfg.Namespace), watched: watched, pause: cfg.renewPeriod(), late: cfg.hedgeAfter(),
	}, nil
}

// leaseConfig returns a configuration whose requests share no connection with those of the
// operator, which may be behind lists of any size. With the protocol http/1.1 requests share none
// with each other either, and a request that is given up closes its connection. Over HTTP/2 a
// connection that hangs is used for 45 s, which does for a watch.
func leaseConfig(config *rest.Config, protocol string, timeout time.Duration) *rest.Config {
	own := rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	own.NextProtos = []string{protocol}
	own.Timeout = timeout
	return own
}

// Leases implements coordination.LeasesGetter.
func (f *followed) Leases(string) coordination.LeaseInterface { return f }

// Get implements coordination.LeaseInterface.
func (f *followed) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	watched := f.watched()
	if watched != nil && !f.doubted {
		return watched.DeepCopy(), nil
	}
	if err := waitUntil(ctx, f.next); err != nil {
		return nil, err
	}
	f.next = time.Now().Add(f.pause)
	read, err := hedge(ctx, f.late, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return f.LeaseInterface.Get(ctx, name, options)
	})
	if err == nil && watched != nil && watched.ResourceVersion == read.ResourceVersion {
		f.doubted = false
	}
	return read, err
}

// Create implements coordination.LeaseInterface.
func (f *followed) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	f.doubted = true
	return f.LeaseInterface.Create(ctx, lease, options)
}

// Update implements coordination.LeaseInterface.
func (f *followed) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	f.doubted = true
	return hedge(ctx, f.late, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return f.LeaseInterface.Update(ctx, lease, options)
	})
}

// hedge sends a request, and sends it again when it has no answer after a time: the first one
// may be on a connection that hangs, or only slow. It returns the first answer of the API server, or
// the last error. Of two equal updates the API server takes one, and the other is a conflict.
func hedge[T any](ctx context.Context, after time.Duration, send func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the request that is left
	type outcome struct {
		answer T
		err    error
	}
	outcomes, running := make(chan outcome, 2), 1
	try := func() {
		answer, err := send(ctx)
		outcomes <- outcome{answer, err}
	}
	go try()
	late := time.NewTimer(after)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			running++
			go try()
		case o := <-outcomes:
			running--
			if o.err == nil || running == 0 || apierrors.ReasonForError(o.err) != metav1.StatusReasonUnknown {
				return o.answer, o.err
			}
		}
	}
}

// waitUntil returns at a time, or with an error when ctx ends before.
func waitUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
