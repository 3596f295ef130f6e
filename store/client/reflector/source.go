// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/alioth-net/alioth/store/client/descriptor"
)

const (
	// shortestWatch is the minimum duration of a watch that counts as a success.
	shortestWatch = time.Second
	// watchFor is the minimum time after which the API server ends a watch; the
	// maximum is twice as long. So a broken watch is replaced soon.
	watchFor = 5 * time.Minute
)

// retries returns the pauses between attempts: the last ones are below ten seconds.
func retries() wait.Backoff {
	return wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 6 * time.Second}
}

// Source keeps the rows of one scope equal to the API's objects: it lists the scope,
// watches it from there on, and lists it again only if the API server no longer has
// the changes since then. It uses one goroutine, which has no buffer while no events
// arrive.
type Source struct {
	set   *Set
	scope descriptor.Scope
	// held are the objects of the scope that have rows; guarded by set.mu.
	held map[descriptor.ID]struct{}
	// version is the last resource version of the source; listed reports that a watch
	// may continue from there. Only the source's goroutine uses them.
	version string
	listed  bool

	synced chan struct{}
	// announce is called once, when synced has been closed.
	announce func()
	cancel   context.CancelFunc
	done     chan struct{}
}

// Start begins to follow a scope until ctx ends, which leaves the rows, or
// until the Source is stopped, which removes them. It never waits for the API:
// lists and watches that fail are tried again, every ten seconds at least.
// announce is called when the source has synced, unless it has ended before, and
// must not block.
func (s *Set) Start(ctx context.Context, scope descriptor.Scope, announce func()) *Source {
	ctx, cancel := context.WithCancel(ctx)
	src := newSource(s, scope)
	src.announce, src.cancel = announce, cancel
	go src.run(ctx)
	return src
}

func newSource(s *Set, scope descriptor.Scope) *Source {
	return &Source{
		set: s, scope: scope,
		held:     map[descriptor.ID]struct{}{},
		synced:   make(chan struct{}),
		announce: func() {},
		done:     make(chan struct{}),
	}
}

// HasSynced reports whether all objects that the scope contained when the source was started are
// in the store. Of a part of a kind that the Set follows already, and with an API server without
// streaming lists, these are the objects in the API server's cache, which is not older than the
// Set's rows of the kind.
func (src *Source) HasSynced() bool {
	select {
	case <-src.synced:
		return true
	default:
		return false
	}
}

// Stop ends the source and removes the rows that no other source of the Set
// covers. It may be called once.
func (src *Source) Stop() {
	src.cancel()
	<-src.done
	src.set.merge(src, change{gone: src.missingFrom(nil)})
}

// run follows the scope until ctx ends.
func (src *Source) run(ctx context.Context) {
	defer close(src.done)
	pause := retries()
	for {
		began := time.Now()
		err := src.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if src.listed && time.Since(began) >= shortestWatch {
			pause = retries()
			if err == nil {
				continue
			}
		}
		if err != nil {
			src.set.complain(src.scope.Kind.Name, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause.Step()):
		}
	}
}

// follow writes the API server's events to the store until the server ends the watch. The end of
// the watch is not an error.
func (src *Source) follow(ctx context.Context) error {
	events, err := src.openApart(ctx)
	if err == nil {
		err = src.changes(events)
		events.body.Close()
	}
	src.listed = src.listed && resumable(err)
	if expired(err) {
		return nil // an expected end, after which the scope is listed again
	}
	return err
}

// resumable reports whether a watch may continue at its version after this error: if
// the connection broke, or the API server is overloaded. Other errors of the API
// server may concern the version.
func resumable(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsTooManyRequests(err)
}

func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// openApart opens in a goroutine of its own, which leaves its stack when it ends: reading a list
// needs a large stack, and each of thousands of sources would keep it for some time.
func (src *Source) openApart(ctx context.Context) (events *eventReader, err error) {
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		events, err = src.open(ctx)
	}()
	<-opened
	return events, err
}

// open begins a watch, and lists the scope before if it has to.
func (src *Source) open(ctx context.Context) (*eventReader, error) {
	if !src.listed && !src.mayList() {
		events, err := src.listAndWatch(ctx)
		var refusal apierrors.APIStatus
		if !errors.As(err, &refusal) {
			return events, err
		}
		// Kubernetes 1.33 has no streaming lists unless it is configured, and later
		// releases have none with an etcd before 3.5.13.
	}
	if !src.listed {
		if err := src.list(ctx); err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
	}
	return src.watch(ctx, map[string]string{"resourceVersion": src.version})
}

// mayList reports whether the source begins with a plain list, from the API server's cache. The
// list is at least as new as the node's rows of the kind. For a streaming list the API server
// copies all objects of the kind before it selects some, which takes half as long again
// (docs/design/140).
func (src *Source) mayList() bool {
	narrow := src.scope.Fields != nil || src.scope.Labels != nil
	return narrow && src.version == "" && src.set.newest(src.scope.Kind.Name) != ""
}

// listAndWatch begins a watch with the present objects
// ("Streaming lists" in Kubernetes' API concepts).
func (src *Source) listAndWatch(ctx context.Context) (*eventReader, error) {
	if err := src.set.beginList(ctx); err != nil {
		return nil, err
	}
	defer src.set.endList()
	events, err := src.watch(ctx, map[string]string{"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
	if err != nil {
		return nil, err
	}
	if err := src.initial(events); err != nil {
		events.body.Close()
		return nil, fmt.Errorf("list: %w", err)
	}
	return events, nil
}

// initial reads the first objects of a watch. A bookmark event ends them.
func (src *Source) initial(events *eventReader) error {
	var all []entry
	for {
		event, err := events.next()
		if err != nil {
			return cut(err)
		}
		switch watch.EventType(event.Type) {
		case watch.Added:
			all = append(all, src.entry(event.Object.Raw))
		case watch.Bookmark:
			mark, err := identify(event.Object.Raw)
			if err != nil {
				return err
			}
			if mark.initialEnd {
				src.replace(all, mark.version)
				return nil
			}
		case watch.Error:
			return statusError(event.Object.Raw)
		default:
			return fmt.Errorf("the API server sent an event %q among those of what there is", event.Type)
		}
	}
}

// list replaces the rows by the objects in the API server's cache, if the cache is not older than
// the source's last version, otherwise by the objects in etcd.
func (src *Source) list(ctx context.Context) error {
	if err := src.set.beginList(ctx); err != nil {
		return err
	}
	defer src.set.endList()
	err := src.listSince(ctx, cmp.Or(src.version, src.set.newest(src.scope.Kind.Name), "0"))
	if expired(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		err = src.listSince(ctx, "")
	}
	return err
}

// listSince requests a list that is not older than a version; "": the newest.
func (src *Source) listSince(ctx context.Context, version string) error {
	parameters := parametersOf(src.scope)
	parameters["resourceVersion"] = version
	body, err := src.set.api.Stream(ctx, src.scope.Kind.Object, "", parameters)
	if err != nil {
		return err
	}
	defer body.Close()
	var all []entry
	version, err = readList(body, func(raw []byte) { all = append(all, src.entry(raw)) })
	if err != nil {
		return err
	}
	src.replace(all, version)
	return nil
}

// replace takes a complete list. A list that is older than the last version means that
// the API's data was restored from a backup. Then the list replaces the rows whatever
// their versions.
func (src *Source) replace(all []entry, version string) {
	order, err := resourceversion.CompareResourceVersion(version, src.version)
	src.version, src.listed = version, true
	src.set.see(src.scope.Kind.Name, version)
	src.set.merge(src, change{present: all, gone: src.missingFrom(all), restored: err == nil && order < 0})
	if !src.HasSynced() {
		close(src.synced)
		src.announce()
	}
}

// missingFrom returns the objects that the source holds and the list lacks.
func (src *Source) missingFrom(list []entry) []descriptor.ID {
	listed := make(map[descriptor.ID]struct{}, len(list))
	for _, e := range list {
		listed[e.id] = struct{}{}
	}
	src.set.mu.Lock()
	defer src.set.mu.Unlock()
	var missing []descriptor.ID
	for _, id := range src.set.unreadBy(src) {
		if _, ok := listed[id]; !ok {
			missing = append(missing, id)
		}
	}
	for id := range src.held {
		if _, ok := listed[id]; !ok {
			missing = append(missing, id)
		}
	}
	return missing
}

// watch begins a watch with these parameters.
func (src *Source) watch(ctx context.Context, more map[string]string) (*eventReader, error) {
	parameters := parametersOf(src.scope)
	maps.Copy(parameters, more)
	parameters["watch"], parameters["allowWatchBookmarks"] = "true", "true"
	parameters["timeoutSeconds"] = strconv.Itoa(int((watchFor + rand.N(watchFor)).Seconds()))
	body, err := src.set.api.Stream(ctx, src.scope.Kind.Object, "", parameters)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return &eventReader{body: body}, nil
}

// changes applies events to the store until the API server ends the watch. The end of the watch
// is not an error. A node has thousands of watches that wait here. Go shrinks the stack of a
// watch only if the watch uses less than a quarter of it. So the function waits in few and small
// frames, and reads an event in others.
func (src *Source) changes(events *eventReader) error {
	for {
		if err := events.wait(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		if err := src.change(events); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
}

// change applies the next event to the store.
func (src *Source) change(events *eventReader) error {
	event, err := events.next()
	if err != nil {
		return err
	}
	return src.take(event)
}

// take applies one event to the store.
func (src *Source) take(event metav1.WatchEvent) error {
	switch kind := watch.EventType(event.Type); kind {
	case watch.Added, watch.Modified:
		e := src.entry(event.Object.Raw)
		src.reach(e.version)
		src.set.merge(src, change{present: []entry{e}})
	case watch.Deleted, watch.Bookmark:
		e, err := identify(event.Object.Raw)
		if err != nil {
			return fmt.Errorf("event %s: %w", kind, err)
		}
		src.reach(e.version)
		if kind == watch.Deleted {
			src.set.merge(src, change{gone: []descriptor.ID{e.id}})
		}
	case watch.Error:
		return statusError(event.Object.Raw)
	default:
		return fmt.Errorf("the API server sent an event of the unknown type %q", event.Type)
	}
	return nil
}

// reach notes the version of an event, "" for none.
func (src *Source) reach(version string) {
	if version != "" {
		src.version = version
		src.set.see(src.scope.Kind.Name, version)
	}
}

// entry reads an object. An object that can't be read counts as present, and its row
// does not change.
func (src *Source) entry(raw []byte) entry {
	e := read(src.scope.Kind, raw)
	if e.err != nil {
		src.set.log.Error(
			"object ignored",
			"kind",
			src.scope.Kind.Name,
			"namespace",
			e.id.Namespace,
			"name",
			e.id.Name,
			"error",
			e.err,
		)
	}
	return e
}

// parametersOf returns the parameters of a request for the scope.
func parametersOf(s descriptor.Scope) map[string]string {
	parameters := map[string]string{}
	if s.Fields != nil {
		parameters["fieldSelector"] = s.Fields.String()
	}
	if s.Labels != nil {
		parameters["labelSelector"] = s.Labels.String()
	}
	return parameters
}
