// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/version"
)

// watchedLease is the client of the Lease in one term. It answers reads from a watch, so that a replica
// that stands by learns of each renewal at once, and looks as often as it likes. The watch may be
// late: a write after such a read is a conflict, and the following reads ask the API server, until
// the watch has caught up with the API server.
type watchedLease struct {
	coordination.LeaseInterface
	// watched returns the Lease that the watch has, nil before it has one.
	watched func() *coordinationv1.Lease
	// pause is the time between two reads, and late the time until a request is sent a second time.
	pause, late time.Duration
	// doubted is true from a write on, and next is the time of the next read of the API server.
	// Only the elector uses them.
	doubted bool
	next    time.Time
	// limit is the time without an answer of the API server after which the term ends. answered is the
	// time of the last answer, and seen the last version of the Lease in the watch. Only the elector
	// uses answered and seen.
	limit    time.Duration
	answered time.Time
	seen     string
	// refuse gets the reason that the term must end.
	refuse func(error)
}

// watchLease returns the client of the Lease, whose watch ends with ctx. refuse gets the reason
// that the term must end.
func watchLease(ctx context.Context, config *rest.Config, cfg Config, refuse func(error)) (*watchedLease, error) {
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
		object, _, _ := store.GetByKey(key) // the store is in memory, and has no errors
		lease, _ := object.(*coordinationv1.Lease)
		return lease
	}
	return &watchedLease{
		LeaseInterface: client.Leases(cfg.Namespace),
		watched:        watched,
		pause:          cfg.renewPeriod(),
		late:           cfg.hedgeAfter(),
		limit:          cfg.LeaseDuration,
		answered:       time.Now(),
		refuse:         refuse,
	}, nil
}

// leaseConfig returns a configuration for lease requests. They share no connection with other
// requests of the operator, which may be behind lists of any size. With the protocol http/1.1
// requests share no connection with each other either, and a request that is given up closes its
// connection. Over HTTP/2 a connection that hangs is used for 45 s, which is short enough for a
// watch.
func leaseConfig(config *rest.Config, protocol string, timeout time.Duration) *rest.Config {
	own := rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	own.NextProtos = []string{protocol}
	own.Timeout = timeout
	return own
}

// Leases implements coordination.LeasesGetter.
func (f *watchedLease) Leases(string) coordination.LeaseInterface { return f }

// Get implements coordination.LeaseInterface. It returns an error if a newer release has written
// the state of the cluster, so that the elector never takes the Lease.
//
// It ends the term if the API server has not answered for the duration of the Lease, also the term of a
// replica that stands by: etcd may have been restored meanwhile, and the replica's picture of the
// cluster is older or newer than the restored objects.
func (f *watchedLease) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	read, err := f.read(ctx, name, options)
	if err != nil {
		if silent := time.Since(f.answered); silent >= f.limit {
			f.refuse(fmt.Errorf("the API server has not answered for %s, all objects are read again: %w",
				silent.Round(time.Second), err))
		}
		return nil, err
	}
	if err := checkState(read); err != nil {
		f.refuse(err)
		return nil, err
	}
	return read, nil
}

func (f *watchedLease) read(
	ctx context.Context,
	name string,
	options metav1.GetOptions,
) (*coordinationv1.Lease, error) {
	watched := f.watched()
	if watched != nil && watched.ResourceVersion != f.seen {
		f.seen, f.answered = watched.ResourceVersion, time.Now()
	}
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
	f.hear(err)
	if err == nil && watched != nil && watched.ResourceVersion == read.ResourceVersion {
		f.doubted = false
	}
	return read, err
}

// hear notes the time if the error of a request shows that the API server, and etcd behind it, have
// answered.
func (f *watchedLease) hear(err error) {
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		f.answered = time.Now()
	}
}

// Create implements coordination.LeaseInterface.
func (f *watchedLease) Create(
	ctx context.Context,
	lease *coordinationv1.Lease,
	options metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	f.doubted = true
	created, err := f.LeaseInterface.Create(ctx, withState(lease), options)
	f.hear(err)
	return created, err
}

// Update implements coordination.LeaseInterface.
func (f *watchedLease) Update(
	ctx context.Context,
	lease *coordinationv1.Lease,
	options metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	f.doubted = true
	lease = withState(lease)
	updated, err := hedge(ctx, f.late, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return f.LeaseInterface.Update(ctx, lease, options)
	})
	f.hear(err)
	return updated, err
}

// stateAnnotation of the Lease has the number of the format of the cluster's state: the highest of
// all releases that have led.
const stateAnnotation = "alioth.dev/state-format"

// withState notes the format in the Lease as soon as a process becomes the leader, before the
// process writes anything else. It changes the Lease that the elector keeps.
func withState(lease *coordinationv1.Lease) *coordinationv1.Lease {
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, stateAnnotation, strconv.Itoa(version.State))
	return lease
}

// checkState explains why this release must not work with the state of the cluster.
func checkState(lease *coordinationv1.Lease) error {
	text, found := lease.Annotations[stateAnnotation]
	if !found { // of v0.1.0, or new
		return nil
	}
	format, err := strconv.Atoi(text)
	if err == nil && format <= version.State {
		return nil
	}
	return fmt.Errorf("the annotation %s of the Lease %s is %s: this cluster has the state of a newer release, "+
		"and v%s knows formats up to %d; nothing was changed; install the newer release again (docs/operate/upgrade.md)",
		stateAnnotation, leaseName, quote.Text(text), version.Number, version.State)
}

// CheckState returns an error if this release must not be installed over the state of the cluster:
// a newer release has led there.
func CheckState(ctx context.Context, config *rest.Config, namespace string) error {
	leases, err := coordination.NewForConfig(config)
	if err != nil {
		return err
	}
	lease, err := leases.Leases(namespace).Get(ctx, leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the Lease %s: %w", leaseName, err)
	}
	return checkState(lease)
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
