// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/nmstate/reach"
	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/store/client/kube"
)

const node = "node1"

// world is a node with its object. What the daemon follows has each change of the object
// as soon as it is made, and stays as it is while the API server is lost.
type world struct {
	hints chan struct{}

	mu     sync.Mutex
	object *v1beta1.NodeNetworkState
	row    Wanted
	lost   bool
	// behind: the row does not follow the object.
	behind bool
	// overtake is called once before the next patch, drift once after the next change of the
	// node.
	overtake, drift func()
	// writes are the times of patches.
	writes []time.Time
	uids   int

	// mtus are the MTUs of the node's interfaces.
	mtus     map[string]int
	managers map[string]string
	// fails, refuses and unreadable are why changes fail, documents are refused, and the
	// node can't be read.
	fails, refuses, unreadable error
	// failure is called for the error of each change, nil for none.
	failure func() error
	// broken are interfaces whose changes fail, and unknown are interfaces that documents must
	// not name.
	broken, unknown map[string]error
	// lostChange is the last change that was undone without the whole state before, and warnings what
	// people were told.
	lostChange *transaction.Unrestored
	warnings   []string
	// tries and plans are the times of attempts to change the node, and to plan it.
	tries, plans []time.Time
	// asked are the targets of the last attempt, and kept the targets of other parts.
	asked, kept []reach.Target
	// dead are targets that do not answer any more.
	dead map[string]bool
}

// NotRestored implements Events.
func (w *world) NotRestored(message string) { w.warnings = append(w.warnings, message) }

func newWorld() *world {
	return &world{hints: make(chan struct{}, 1), mtus: map[string]int{"eth0": 1500, "eth1": 1500}, managers: map[string]string{}}
}

func (w *world) config() Config {
	return Config{
		Node: node, API: w, Engine: w, Hints: w.hints, Poll: 30 * time.Second, Timeout: time.Minute, Log: slog.New(slog.DiscardHandler),
		Events: w,
		Wanted: func(context.Context) (Wanted, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.row, nil
		},
	}
}

// run runs a handler in a bubble of virtual time, and then what a test does beside it.
func run(t *testing.T, w *world, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w.hints = make(chan struct{}, 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			New(w.config()).Run(ctx)
		}()
		synctest.Wait()
		f(t)
		cancel()
		<-ended
	})
}

// change changes the world, and lets the handler know.
func (w *world) change(f func()) {
	w.mu.Lock()
	f()
	w.mu.Unlock()
	w.hint()
	synctest.Wait()
}

func (w *world) hint() {
	select {
	case w.hints <- struct{}{}:
	default:
	}
}

// desire sets the desired state by hand.
func (w *world) desire(text string) {
	w.change(func() { w.ask(text) })
}

// ask is desire without a hint; called with mu held.
func (w *world) ask(text string) {
	w.object.Spec.DesiredState = &runtime.RawExtension{Raw: []byte(text)}
	w.object.Generation++
	w.follow()
}

// follow gives the object another version, and lets the row follow it; called with mu held.
func (w *world) follow() {
	if w.object != nil {
		w.uids++
		w.object.ResourceVersion = strconv.Itoa(w.uids)
	}
	if w.behind {
		return
	}
	w.hint()
	w.row = Wanted{NodeUID: "node-uid"}
	if w.object == nil {
		return
	}
	w.row.UID, w.row.Generation = w.object.UID, w.object.Generation
	w.row.Unmanaged = w.object.Spec.Managed != nil && !*w.object.Spec.Managed
	w.row.Reach, w.row.PolicyReach, w.row.Parts = texts(w.object.Spec.Reach), texts(w.object.Spec.PolicyReach), partsOf(w.object.Spec.Parts)
	if desired := w.object.Spec.DesiredState; desired != nil {
		w.row.Desired = nil
		if err := json.Unmarshal(desired.Raw, &w.row.Desired); err != nil {
			w.row.Invalid = err.Error()
		}
	}
}

var (
	resource = schema.GroupResource{Group: "nmstate.io", Resource: "nodenetworkstates"}
	errLost  = errors.New("connection refused")
)

func (w *world) Get(_ context.Context, obj kube.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost {
		return errLost
	}
	if n, ok := obj.(*corev1.Node); ok {
		n.UID = "node-uid"
		return nil
	}
	if w.object == nil {
		return apierrors.NewNotFound(resource, obj.GetName())
	}
	w.object.DeepCopyInto(obj.(*v1beta1.NodeNetworkState))
	return nil
}

func (w *world) Create(_ context.Context, obj kube.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost {
		return errLost
	}
	if w.object != nil {
		return apierrors.NewAlreadyExists(resource, obj.GetName())
	}
	w.uids++
	created := obj.(*v1beta1.NodeNetworkState)
	created.UID, created.Generation = types.UID("uid"+strconv.Itoa(w.uids)), 1
	w.object = created.DeepCopy()
	w.follow()
	w.object.DeepCopyInto(created)
	return nil
}

func (w *world) Patch(_ context.Context, obj kube.Object, kind types.PatchType, data []byte, subresource ...string) error {
	if w.overtake != nil {
		w.overtake()
		w.overtake = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var steps []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(data, &steps); err != nil || w.lost {
		return errors.Join(err, errLost)
	}
	if kind != types.JSONPatchType || !slices.Equal(subresource, []string{"status"}) || len(steps) != 2 || w.object == nil {
		return errors.New("no patch of the status of an object that is there")
	}
	if string(steps[1].Value) != strconv.Quote(w.object.ResourceVersion) {
		return apierrors.NewConflict(resource, obj.GetName(), errors.New("the object has changed"))
	}
	w.object.Status = v1beta1.NodeNetworkStateStatus{}
	if err := json.Unmarshal(steps[0].Value, &w.object.Status); err != nil {
		return err
	}
	w.writes = append(w.writes, time.Now())
	w.follow()
	return nil
}

func (w *world) Show(context.Context) (*document.State, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := &document.State{}
	for _, name := range slices.Sorted(maps.Keys(w.mtus)) {
		state.Interfaces = append(state.Interfaces, document.Interface{Name: name, MTU: new(w.mtus[name])})
	}
	return state, w.unreadable
}

func (w *world) Plan(_ context.Context, desired *document.State) ([]plan.Step, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plans = append(w.plans, time.Now())
	return w.steps(desired), errors.Join(w.refuses, about(w.unknown, desired))
}

// about is the error of an interface that a document names, nil for none.
func about(errs map[string]error, desired *document.State) error {
	for _, i := range desired.Interfaces {
		if err := errs[i.Name]; err != nil {
			return err
		}
	}
	return nil
}

func (w *world) steps(desired *document.State) (steps []plan.Step) {
	for _, i := range desired.Interfaces {
		if i.MTU != nil && *i.MTU != w.mtus[i.Name] {
			steps = append(steps, plan.Change{Interface: i})
		}
	}
	return steps
}

func (w *world) Apply(_ context.Context, desired *document.State, o transaction.Options) (*transaction.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	steps := w.steps(desired)
	if len(steps) > 0 {
		w.tries, w.asked, w.kept = append(w.tries, time.Now()), o.Reach, o.Kept
		for _, target := range o.Reach {
			if w.dead[target.String()] {
				return nil, fmt.Errorf("target %s of reach does not answer: %w", target, transaction.ErrRolledBack)
			}
		}
	}
	failure := w.fails
	if w.failure != nil {
		failure = w.failure()
	}
	if err := errors.Join(failure, about(w.broken, desired)); err != nil || o.Timeout != time.Minute {
		return nil, errors.Join(err, transaction.ErrRolledBack)
	}
	for _, i := range desired.Interfaces {
		if i.MTU != nil {
			w.mtus[i.Name] = *i.MTU
			delete(w.unknown, i.Name+".5") // what another one can be made on
		}
	}
	if len(steps) > 0 {
		w.hint()
	}
	if w.drift != nil {
		w.drift()
		w.drift = nil
	}
	return &transaction.Result{Steps: steps}, nil
}

func (w *world) Unrestored() (*transaction.Unrestored, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lostChange, nil
}

func (w *world) Manager(name string) (string, error) { return w.managers[name], nil }

// status returns a copy of the object's status.
func (w *world) status(t *testing.T) v1beta1.NodeNetworkStateStatus {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.object == nil {
		t.Fatal("there is no object")
	}
	return w.object.DeepCopy().Status
}

// has checks the status and reason of a condition; a status of "" is a condition that is
// not there.
func has(t *testing.T, s v1beta1.NodeNetworkStateStatus, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	t.Helper()
	var got metav1.Condition
	if condition := meta.FindStatusCondition(s.Conditions, kind); condition != nil {
		got = *condition
	}
	if got.Status != status || got.Reason != reason {
		t.Errorf("condition %s is %q with reason %q (%s), want %q with %q", kind, got.Status, got.Reason, got.Message, status, reason)
	}
	return got
}

// showsMTU checks the MTU of an interface in the current state of a status.
func showsMTU(t *testing.T, s v1beta1.NodeNetworkStateStatus, name string, mtu int) {
	t.Helper()
	if s.CurrentState == nil {
		t.Fatal("the object has no current state")
	}
	current, err := document.ParseJSON(s.CurrentState.Raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range current.Interfaces {
		if i.Name == name && i.MTU != nil && *i.MTU == mtu {
			return
		}
	}
	t.Errorf("the current state is %s, want %s with MTU %d", s.CurrentState.Raw, name, mtu)
}
