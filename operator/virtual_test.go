// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store/client/descriptor"
)

// informer follows one kind of a fakeAPI, as late as it is let.
type informer struct {
	cache.Informer
	api     *fakeAPI
	kind    reflect.Type
	next    int // index of the next change in the API's log
	objects map[apiKey]client.Object
	handler toolscache.ResourceEventHandler
}

func newInformer(api *fakeAPI, kind reflect.Type) *informer {
	return &informer{api: api, kind: kind, objects: map[apiKey]client.Object{}}
}

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return synced{}, nil
}

// synced is a registration that has seen everything: worlds list before their
// controllers start.
type synced struct {
	toolscache.ResourceEventHandlerRegistration
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (synced) HasSynced() bool { return true }

// behind reports whether there is a change to hear of.
func (i *informer) behind() bool {
	for i.next < len(i.api.log) && i.api.log[i.next].key.kind != i.kind {
		i.next++
	}
	return i.next < len(i.api.log)
}

// hear takes in the next change.
func (i *informer) hear() {
	if i.behind() {
		change := i.api.log[i.next]
		i.next++
		i.tell(change.key, change.now)
	}
}

// list takes in the present state at once, and misses the changes between, as after a watch that
// broke.
func (i *informer) list() {
	i.next = len(i.api.log)
	for _, key := range keysOf(i.kind, i.objects) {
		if _, there := i.api.objects[key]; !there {
			i.tell(key, nil)
		}
	}
	for _, key := range keysOf(i.kind, i.api.objects) {
		i.tell(key, i.api.objects[key])
	}
}

// repeat notifies of everything again.
func (i *informer) repeat() {
	for _, key := range keysOf(i.kind, i.objects) {
		i.tell(key, i.objects[key])
	}
}

func (i *informer) tell(key apiKey, now client.Object) {
	old := i.objects[key]
	if now == nil {
		delete(i.objects, key)
		if old != nil && i.handler != nil {
			i.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: key.String(), Obj: keep(old)})
		}
		return
	}
	i.objects[key] = now
	switch {
	case i.handler == nil:
	case old == nil:
		i.handler.OnAdd(keep(now), false)
	default:
		i.handler.OnUpdate(keep(old), keep(now))
	}
}

// keep returns the part of an object that the operator's informers keep.
func keep(object client.Object) any {
	kept, err := feed.Keep(clone(object))
	if err != nil {
		panic(err)
	}
	return kept
}

// keysOf returns the keys of a kind in a fixed order.
func keysOf(kind reflect.Type, objects map[apiKey]client.Object) []apiKey {
	var keys []apiKey
	for key := range objects {
		if key.kind == kind {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b apiKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return keys
}

// informers has the informers of one program.
type informers struct {
	cache.Cache
	all []*informer
}

func newInformers(api *fakeAPI) *informers {
	set := &informers{}
	for _, object := range kindsOfAPI() {
		set.all = append(set.all, newInformer(api, reflect.TypeOf(object)))
	}
	return set
}

func (s *informers) of(kind reflect.Type) *informer {
	for _, i := range s.all {
		if i.kind == kind {
			return i
		}
	}
	panic("no informer for " + kind.String())
}

// GetInformer implements cache.Cache.
func (s *informers) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return s.of(reflect.TypeOf(object)), nil
}

func (s *informers) cached(key apiKey) client.Object { return s.of(key.kind).objects[key] }

// cachedForOperator answers a read of the operator from its informers, which is a mistake where
// they keep rows.
func (s *informers) cachedForOperator(key apiKey) client.Object {
	object := s.cached(key)
	if object == nil {
		return nil
	}
	kept, ok := keep(object).(client.Object)
	if !ok {
		panic("the operator's informers keep no " + key.kind.String())
	}
	return kept
}

func (s *informers) listAll() {
	for _, i := range s.all {
		i.list()
	}
}

// view returns a program's objects of a kind, by name.
func view[O client.Object](s *informers) []O {
	i := s.of(reflect.TypeFor[O]())
	all := make([]O, 0, len(i.objects))
	for _, key := range keysOf(i.kind, i.objects) {
		all = append(all, i.objects[key].(O))
	}
	return all
}

// queue is a work queue in virtual time.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	now func() time.Time
	due map[reconcile.Request]time.Time
	// without is the name of a controller without turns of the tenants.
	without string
}

// Add implements workqueue.TypedInterface.
func (q *queue) Add(request reconcile.Request) { q.AddAfter(request, 0) }

// AddAfter implements workqueue.TypedDelayingInterface: the earliest counts.
func (q *queue) AddAfter(request reconcile.Request, after time.Duration) {
	if q.without != "" && request.Namespace != "" {
		panic("the controller " + q.without + " processes objects of namespaces: its source needs ByTurns")
	}
	at := q.now().Add(after)
	if due, ok := q.due[request]; !ok || at.Before(due) {
		q.due[request] = at
	}
}

// control is one controller of a virtual operator.
type control struct {
	name       string
	workers    int
	reconciler reconcile.Reconciler
	source     *feed.Source
	queue      *queue
	running    map[reconcile.Request]bool
	// pauses are those after errors in a row.
	pauses map[reconcile.Request]time.Duration
}

// runnable lists the requests that may run now, in a fixed order.
func (c *control) runnable(now time.Time) []reconcile.Request {
	if len(c.running) >= c.workers {
		return nil
	}
	var all []reconcile.Request
	for request, due := range c.queue.due {
		if !due.After(now) && !c.running[request] {
			all = append(all, request)
		}
	}
	slices.SortFunc(all, func(a, b reconcile.Request) int { return cmp.Compare(a.String(), b.String()) })
	return all
}

// instance is one operator process: the real controllers on a virtual clock.
type instance struct {
	name     string
	inputs   *informers
	controls []*control
	fed      *feed.Feed
	missing  []*descriptor.Kind
	now      func() time.Time
	ctx      context.Context //nolint:containedctx // the life of the process that this stands for
	kill     context.CancelFunc
	// events counts events by the name of their object and their reason.
	events map[string]int
	// reconciles counts runs per controller, failures the runs with an error.
	reconciles map[string]int
	// pausesGrow: the pause after an error doubles, as in the real queues.
	pausesGrow bool
}

// Add implements feed.Controllers.
func (o *instance) Add(name string, workers int, r reconcile.Reconciler, source *feed.Source) error {
	q := &queue{now: o.now, due: map[reconcile.Request]time.Time{}}
	serving := source.Serve(r)
	if serving == r && name != "pod" { // which has turns of its own
		q.without = name
	}
	o.controls = append(o.controls, &control{
		name: name, workers: workers, reconciler: serving, source: source, queue: q,
		running: map[reconcile.Request]bool{}, pauses: map[reconcile.Request]time.Duration{},
	})
	return nil
}

// control returns the controller of that name.
func (o *instance) control(name string) *control {
	i := slices.IndexFunc(o.controls, func(c *control) bool { return c.name == name })
	return o.controls[i]
}

var errKilled = errors.New("this process was killed")

// worldClock is the clock of a world.
type worldClock func() time.Time

// Now implements clock.PassiveClock.
func (v worldClock) Now() time.Time { return v() }

// Since implements clock.PassiveClock.
func (v worldClock) Since(then time.Time) time.Duration { return v().Sub(then) }

// newInstance starts an operator with an empty store; it lists first.
func newInstance(
	name string,
	api *fakeAPI,
	cfg Config,
	now func() time.Time,
	hook func(o *instance, verb string, object client.Object, effect func() error) error,
) (*instance, error) {
	o := &instance{name: name, inputs: newInformers(api), now: now, reconciles: map[string]int{}, events: map[string]int{}}
	o.ctx, o.kill = context.WithCancel(context.Background())
	m, err := newMetrics(&state{})
	if err != nil {
		return nil, err
	}
	guarded := func(verb string, object client.Object, effect func() error) error {
		return hook(o, verb, object, effect)
	}
	env := environment{
		informers:   o.inputs,
		writer:      &apiClient{api: api, hook: guarded, cached: o.inputs.cachedForOperator},
		live:        &apiClient{api: api, hook: guarded},
		events:      recorder{o},
		kinds:       api,
		controllers: o, leading: o.ctx.Done(), log: logr.Discard(), clock: worldClock(now),
	}
	if o.fed, o.missing, err = assemble(o.ctx, env, cfg, m); err != nil {
		return nil, err
	}
	o.inputs.listAll()
	o.fed.Fill(o.ctx)
	for _, c := range o.controls {
		if err := c.source.Start(o.ctx, c.queue); err != nil {
			return nil, err
		}
		if err := c.source.WaitForSync(o.ctx); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *instance) dead() bool { return o.ctx.Err() != nil }

// run reconciles one request to its end, with the queue's rules for the next ones.
func (o *instance) run(c *control, request reconcile.Request) {
	delete(c.queue.due, request)
	c.running[request] = true
	o.reconciles[c.name]++
	result, err := c.reconciler.Reconcile(logr.NewContext(o.ctx, logr.Discard()), request)
	delete(c.running, request)
	if err == nil {
		delete(c.pauses, request)
	}
	switch {
	case apierrors.IsConflict(err):
		c.queue.AddAfter(request, 100*time.Millisecond)
	case err != nil && o.pausesGrow:
		c.pauses[request] = min(max(2*c.pauses[request], 20*time.Millisecond), 30*time.Second)
		c.queue.AddAfter(request, c.pauses[request])
	case err != nil:
		c.queue.AddAfter(request, 200*time.Millisecond)
	case result.RequeueAfter > 0:
		c.queue.AddAfter(request, result.RequeueAfter)
	}
}

// work is one thing that a process can do now.
type work struct {
	what string
	do   func()
}

// choices lists the actions that the process can take now.
func (o *instance) choices() []work {
	var all []work
	if o.dead() {
		return nil
	}
	for _, i := range o.inputs.all {
		if i.behind() {
			all = append(all, work{fmt.Sprintf("%s hears of %s", o.name, i.kind), i.hear})
		}
	}
	for _, c := range o.controls {
		for _, request := range c.runnable(o.now()) {
			all = append(all, work{fmt.Sprintf("%s %s %s", o.name, c.name, request), func() { o.run(c, request) }})
		}
	}
	return all
}

func (o *instance) news() *informers { return o.inputs }

// nextDue is when the process has something to do if nothing changes.
func (o *instance) nextDue() (time.Time, bool) {
	var first time.Time
	for _, c := range o.controls {
		for _, due := range c.queue.due {
			if first.IsZero() || due.Before(first) {
				first = due
			}
		}
	}
	return first, !first.IsZero() && !o.dead()
}

// recorder remembers the reasons of events by their objects.
type recorder struct{ of *instance }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(about, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	if object, ok := about.(client.Object); ok {
		r.of.events[object.GetName()+" "+reason]++
	}
}

func requestFor(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}
}
