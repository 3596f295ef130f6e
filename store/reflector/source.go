// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Source keeps the rows of one scope like the API has them.
type Source struct {
	set  *Set
	kind kind
	// held are the objects of the scope that have rows; guarded by set.mu.
	held map[objectID]struct{}
	// version is the resource version that the source was told last; only the
	// Reflector's goroutine uses it.
	version string

	synced chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
}

// Start begins to follow a scope until ctx ends, which leaves the rows, or
// until the Source is stopped, which removes them. It never waits for the API:
// lists and watches that fail are tried again, every ten seconds at least.
func (s *Set) Start(ctx context.Context, scope Scope) (*Source, error) {
	k, err := kindOf(scope.Object)
	if err != nil {
		return nil, fmt.Errorf("follow scope: %w", err)
	}
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(s.log.Handler()))
	ctx, cancel := context.WithCancel(ctx)
	src := newSource(s, k)
	src.cancel = cancel
	reflector := cache.NewReflectorWithOptions(
		listWatch(s.client, k, scope), scope.Object, feed{src},
		cache.ReflectorOptions{Name: "alioth " + k.name, Backoff: &wait.Backoff{
			Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 7 * time.Second,
		}},
	)
	go func() {
		defer close(src.done)
		reflector.RunWithContext(ctx)
	}()
	return src, nil
}

func newSource(s *Set, k kind) *Source {
	return &Source{
		set: s, kind: k,
		held:   map[objectID]struct{}{},
		synced: make(chan struct{}),
		done:   make(chan struct{}),
	}
}

// Synced returns a channel that is closed once everything that the scope
// contained when the source was started is in the store.
func (src *Source) Synced() <-chan struct{} {
	return src.synced
}

// Done returns a channel that is closed once the source has ended, synced or
// not.
func (src *Source) Done() <-chan struct{} {
	return src.done
}

// HasSynced tells whether the channel of Synced is closed.
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

// missingFrom returns what the source holds and the list has not.
func (src *Source) missingFrom(list []client.Object) []objectID {
	listed := make(map[objectID]struct{}, len(list))
	for _, obj := range list {
		listed[idOf(obj)] = struct{}{}
	}
	src.set.mu.Lock()
	defer src.set.mu.Unlock()
	var missing []objectID
	for id := range src.held {
		if _, ok := listed[id]; !ok {
			missing = append(missing, id)
		}
	}
	return missing
}

func listWatch(c client.WithWatch, k kind, scope Scope) *cache.ListWatch {
	options := func(raw metav1.ListOptions) *client.ListOptions {
		return &client.ListOptions{
			Namespace:     scope.Namespace,
			FieldSelector: scope.Fields,
			LabelSelector: scope.Labels,
			Limit:         raw.Limit,
			Continue:      raw.Continue,
			Raw:           &raw,
		}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			list := k.list()
			return list, c.List(ctx, list, options(raw))
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, k.list(), options(raw))
		},
	}
}

// feed is the face of a Source toward the Reflector, which calls it from one
// goroutine.
type feed struct{ src *Source }

var _ cache.TransformingStore = feed{}

// Add implements cache.ReflectorStore.
func (f feed) Add(obj any) error {
	object, err := asObject(obj)
	if err != nil {
		return err
	}
	f.src.version = object.GetResourceVersion()
	f.src.set.merge(f.src, change{present: []client.Object{object}})
	return nil
}

// Update implements cache.ReflectorStore.
func (f feed) Update(obj any) error {
	return f.Add(obj)
}

// Delete implements cache.ReflectorStore.
func (f feed) Delete(obj any) error {
	object, err := asObject(obj)
	if err != nil {
		return err
	}
	f.src.version = object.GetResourceVersion()
	f.src.set.merge(f.src, change{gone: []objectID{idOf(object)}})
	return nil
}

// Replace implements cache.ReflectorStore: the list is all there is. One that
// is older than what was seen before means that the API's data was restored
// from a backup, because a Reflector never asks for less than it has seen. Then
// the list counts, whatever versions the rows have.
func (f feed) Replace(list []any, version string) error {
	objects := make([]client.Object, 0, len(list))
	for _, obj := range list {
		object, err := asObject(obj)
		if err != nil {
			return err
		}
		objects = append(objects, object)
	}
	order, err := resourceversion.CompareResourceVersion(version, f.src.version)
	f.src.version = version
	f.src.set.merge(f.src, change{
		present:  objects,
		gone:     f.src.missingFrom(objects),
		restored: err == nil && order < 0,
	})
	if !f.src.HasSynced() {
		close(f.src.synced)
	}
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to send again: rows
// stay in the store.
func (f feed) Resync() error { return nil }

// Transformer implements cache.TransformingStore: while a list streams in, the
// Reflector holds its objects, which need no managed fields for that.
func (f feed) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if accessor, err := meta.Accessor(obj); err == nil {
			accessor.SetManagedFields(nil)
		}
		return obj, nil
	}
}

func asObject(obj any) (client.Object, error) {
	object, ok := obj.(client.Object)
	if !ok {
		return nil, fmt.Errorf("take %T into the store: no API object", obj)
	}
	return object, nil
}
