// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// memoryAPI is an API server in memory.
type memoryAPI struct {
	client client.Client

	mu     sync.Mutex
	serial int
	// writes are those that were asked for, as "verb name/subresource".
	writes []string
	// refuse returns the error of a request, nil to serve it.
	refuse func(request string) error
}

func (a *memoryAPI) begin(write bool, request string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if write {
		a.writes = append(a.writes, request)
	}
	if a.refuse != nil {
		return a.refuse(request)
	}
	return nil
}

func (a *memoryAPI) Create(ctx context.Context, object kube.Object) error {
	if err := a.begin(true, "create "+object.GetName()); err != nil {
		return err
	}
	a.mu.Lock()
	a.serial++
	object.SetUID(types.UID(fmt.Sprintf("uid-%d", a.serial)))
	a.mu.Unlock()
	object.SetGeneration(1)
	return a.client.Create(ctx, object.(client.Object))
}

func (a *memoryAPI) Patch(ctx context.Context, object kube.Object, kind types.PatchType, data []byte, subresource ...string) error {
	request := strings.Join(append([]string{"patch " + object.GetName()}, subresource...), "/")
	if err := a.begin(true, request); err != nil {
		return err
	}
	copied := object.DeepCopyObject().(client.Object)
	if len(subresource) > 0 {
		return a.client.SubResource(subresource[0]).Patch(ctx, copied, client.RawPatch(kind, data))
	}
	if err := a.client.Patch(ctx, copied, client.RawPatch(kind, data)); err != nil {
		return err
	}
	copied.SetGeneration(copied.GetGeneration() + 1)
	return a.client.Update(ctx, copied)
}

func (a *memoryAPI) Delete(ctx context.Context, object kube.Object, uid types.UID) error {
	if err := a.begin(true, "delete "+object.GetName()); err != nil {
		return err
	}
	now := object.DeepCopyObject().(client.Object)
	if err := a.client.Get(ctx, client.ObjectKeyFromObject(now), now); err != nil {
		return err
	}
	if now.GetUID() != uid {
		return apierrors.NewConflict(schema.GroupResource{}, now.GetName(), fmt.Errorf("the UID is %s", now.GetUID()))
	}
	return a.client.Delete(ctx, now)
}

func (a *memoryAPI) List(ctx context.Context, list runtime.Object, _, _ string) error {
	if err := a.begin(false, fmt.Sprintf("list %T", list)); err != nil {
		return err
	}
	return a.client.List(ctx, list.(client.ObjectList))
}

func (a *memoryAPI) Get(ctx context.Context, object kube.Object) error {
	if err := a.begin(false, "get "+object.GetName()); err != nil {
		return err
	}
	return a.client.Get(ctx, client.ObjectKeyFromObject(object), object.(client.Object))
}

// take returns the writes since the last call.
func (a *memoryAPI) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.writes
	a.writes = nil
	return list
}

func (a *memoryAPI) setRefuse(refuse func(string) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = refuse
}

// scheme has all kinds.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return scheme
})

// mapper knows the resources of the scheme. To make one is slow.
var mapper = sync.OnceValue(func() meta.RESTMapper { return testrestmapper.TestOnlyStaticRESTMapper(scheme()) })

// world is an API server, and handlers with a store that follows it on demand.
type world struct {
	t   *testing.T
	api *memoryAPI
	cfg Config
	now time.Time
}

// Now implements clock.PassiveClock.
func (w *world) Now() time.Time { return w.now }

// Since implements clock.PassiveClock.
func (w *world) Since(then time.Time) time.Duration { return w.now.Sub(then) }

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), api: &memoryAPI{}}
	w.api.client = fake.NewClientBuilder().WithScheme(scheme()).WithRESTMapper(mapper()).WithObjects(objects...).WithStatusSubresource(
		&nmstatev1beta1.NodeNetworkState{}, &nmstatev1beta1.NodeNetworkConfigurationEnactment{},
		&nmstatev1.NodeNetConfPolicy{}, &nmstatev1.NodeNetworkConfigurationPolicy{}).Build()
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	w.cfg = configFor(t, w.api, rows, w)
	w.sync()
	return w
}

func configFor(t *testing.T, api API, rows *store.Store, clock clock.PassiveClock) Config {
	t.Helper()
	return Config{
		API: api, Store: rows, Clock: clock, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Node: func(ctx context.Context, name string) (*corev1.Node, error) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			return node, api.Get(ctx, node)
		},
		Nodes: func(ctx context.Context) ([]corev1.Node, error) {
			var list corev1.NodeList
			err := api.List(ctx, &list, "", "")
			return list.Items, err
		},
	}
}

// sync replaces the rows by the rows of the objects.
func (w *world) sync() {
	w.t.Helper()
	next, err := withRows(w.t.Context(), w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	var read rowsOfAll
	next.Store.View(func(tx store.ReadTx) { read = readAll(tx) })
	err = w.cfg.Store.Update(func(tx store.Tx) error {
		old := readAll(tx)
		for _, row := range old.enactments {
			nmstate.DeleteEnactment(tx, row.Name, row.UID)
		}
		for _, row := range old.policies {
			nmstate.DeletePolicy(tx, row.Spec.Reference, row.UID)
		}
		return read.put(tx)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// rowsOfAll are the rows of all nodes.
type rowsOfAll struct {
	policies   []*nmstate.Policy
	enactments []*nmstate.Enactment
	states     []*nmstate.State
}

func readAll(tx store.ReadTx) rowsOfAll {
	return rowsOfAll{
		slices.Collect(nmstate.Policies(tx)), slices.Collect(nmstate.Enactments(tx)), slices.Collect(nmstate.States(tx)),
	}
}

func (r rowsOfAll) put(tx store.Tx) error {
	for _, row := range r.policies {
		if err := nmstate.PutPolicy(tx, row); err != nil {
			return err
		}
	}
	for _, row := range r.enactments {
		if err := nmstate.PutEnactment(tx, row); err != nil {
			return err
		}
	}
	for _, row := range r.states {
		if err := nmstate.PutState(tx, row); err != nil {
			return err
		}
	}
	return nil
}

// enactment returns the enactment of the policy blue on node n1, and its row.
func (w *world) enactment() (*nmstatev1beta1.NodeNetworkConfigurationEnactment, nmstate.Enactment) {
	w.t.Helper()
	object := newEnactment("n1.blue")
	if err := w.api.Get(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
	row, err := nmstateapi.ConvertEnactment(object)
	if err != nil || row == nil {
		w.t.Fatalf("the enactment has no row: %v", err)
	}
	return object, *row
}

func (w *world) state() *nmstatev1beta1.NodeNetworkState {
	w.t.Helper()
	object := newState("n1")
	if err := w.api.Get(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
	return object
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

var blue = nmstate.Reference{Kind: nmstatev1.NodeNetworkConfigurationPolicyKind, Name: "blue"}

// newRow is a new enactment of the policy blue on node n1.
func newRow() nmstate.Enactment {
	return nmstate.Enactment{
		Name: "n1.blue", Node: "n1", Policy: blue, PolicyUID: "uid-blue", PolicyGeneration: 3,
		Phase: nmstate.Pending, Reason: nmstatev1.MaxUnavailableLimitReachedReason, Message: "it waits",
		Desired: mtu("eth1", 9000), Captured: map[string]map[string]any{"base": mtu("eth0", 1500)},
		Before: mtu("eth1", 1500), Applied: mtu("eth1", 8000), AppliedPriority: 5, Keep: true, Overruled: "x",
		Undoing: mtu("eth2", 1500),
		Trial: nmstate.Trial{
			Open: true, Former: mtu("eth1", 7000), FormerPriority: 6, Failures: 2, Seen: "digest",
			Next: time.Date(2026, 1, 2, 3, 4, 20, 0, time.UTC).Local(),
		},
	}
}

func mtu(name string, value int) map[string]any {
	return map[string]any{"interfaces": []any{map[string]any{"name": name, "mtu": float64(value)}}}
}

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }
