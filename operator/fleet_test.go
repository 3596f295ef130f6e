// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
)

// highestMTU is the highest MTU of the network cards of a fleet. A node with a desired state beyond
// it fails.
const highestMTU = 9000

// fleet has nodes of a test with their state handlers, without a kernel. A state handler takes over
// the desired state, or fails.
type fleet struct {
	*rig
	name  string
	nodes []*corev1.Node
	watch client.WithWatch
}

// newFleet makes size nodes. Their names begin with the name of the test, which is their label as
// well.
func newFleet(t *testing.T, name string, size int) *fleet {
	t.Helper()
	f := &fleet{rig: newRig(t), name: name}
	var err error
	if f.watch, err = client.NewWithWatch(f.config, client.Options{Scheme: f.Scheme()}); err != nil {
		t.Fatal(err)
	}
	for i := range size {
		node := newNode(fmt.Sprintf("%s-%03d", name, i))
		node.Labels = map[string]string{"fleet": name}
		f.create(node, &v1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: node.Name}})
		f.nodes = append(f.nodes, node)
	}
	f.follow(&v1beta1.NodeNetworkStateList{}, func(object client.Object, gone bool) {
		if !gone {
			f.enforce(object.(*v1beta1.NodeNetworkState))
		}
	})
	t.Cleanup(f.clear)
	return f
}

// clear removes the objects that other tests would find.
func (f *fleet) clear() {
	ctx := context.WithoutCancel(f.t.Context())
	for _, node := range f.nodes {
		for _, object := range []client.Object{node, &v1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}} {
			if err := f.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
				f.t.Errorf("delete %T %s: %v", object, object.GetName(), err)
			}
		}
	}
}

// follow calls fn, one after the other, for each object of a kind whose name begins with the
// fleet's name, and for each change of these objects, until the test ends.
func (f *fleet) follow(list client.ObjectList, fn func(object client.Object, gone bool)) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	if err := f.List(ctx, list); err != nil {
		f.t.Fatal(err)
	}
	watcher, err := f.watch.Watch(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
	if err != nil {
		f.t.Fatal(err)
	}
	mine := func(object runtime.Object, gone bool) {
		if one, ok := object.(client.Object); ok && strings.HasPrefix(one.GetName(), f.name+"-") {
			fn(one, gone)
		}
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		f.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, object := range objects {
			mine(object, false)
		}
		for event := range watcher.ResultChan() {
			mine(event.Object, event.Type == watch.Deleted)
		}
		if ctx.Err() == nil {
			f.t.Errorf("the watch of %T has ended before the test", list)
		}
	}()
	f.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// document is a state document.
type document map[string]any

func (f *fleet) read(raw *runtime.RawExtension) document {
	d := document{}
	if raw != nil && len(raw.Raw) > 0 {
		if err := json.Unmarshal(raw.Raw, &d); err != nil {
			f.t.Errorf("read %s: %v", raw.Raw, err)
		}
	}
	return d
}

// interfaces returns the interfaces of a document by name.
func (d document) interfaces() map[string]document {
	all := map[string]document{}
	list, _ := d["interfaces"].([]any)
	for _, one := range list {
		fields, _ := one.(map[string]any)
		name, _ := fields["name"].(string)
		all[name] = fields
	}
	return all
}

func rawState(interfaces map[string]document) *runtime.RawExtension {
	var list []document
	for _, name := range slices.Sorted(maps.Keys(interfaces)) {
		list = append(list, interfaces[name])
	}
	text, err := json.Marshal(document{"interfaces": list})
	if err != nil {
		panic(err) // of maps of texts and numbers
	}
	return &runtime.RawExtension{Raw: text}
}

// enforce is a pass of a node's state handler. A newer object comes by itself.
func (f *fleet) enforce(state *v1beta1.NodeNetworkState) {
	if state.Status.ObservedDesiredGeneration == state.Generation {
		return
	}
	before := state.DeepCopy()
	interfaces := f.read(state.Status.CurrentState).interfaces()
	if state.Status.CurrentState == nil {
		interfaces["eth1"] = document{"name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500.0}
	}
	failure := apply(interfaces, f.read(state.Spec.DesiredState).interfaces())
	state.Status.CurrentState = rawState(interfaces)
	state.Status.ObservedDesiredGeneration = state.Generation
	says := func(condition string, holds bool, reason, message string) {
		status := metav1.ConditionFalse
		if holds {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&state.Status.Conditions, metav1.Condition{Type: condition, Status: status, Reason: reason, Message: message})
	}
	reason := nmstatev1.SuccessfullyConfiguredReason
	if failure != "" {
		reason = nmstatev1.FailedToConfigureReason
	}
	says(nmstatev1.AvailableCondition, failure == "", reason, failure)
	says(nmstatev1.FailingCondition, failure != "", reason, failure)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := f.Status().Patch(f.t.Context(), state, patch)
	if err != nil && f.t.Context().Err() == nil && !conflictOrGone(err) {
		f.t.Errorf("report the state of %s: %v", state.Name, err)
	}
}

// apply changes interfaces to the desired state, all or nothing. It returns the reason of a
// failure.
func apply(interfaces, desired map[string]document) string {
	for name, fields := range desired {
		if mtu, _ := fields["mtu"].(float64); mtu > highestMTU {
			return fmt.Sprintf("interfaces[%s].mtu: %v is more than %d", name, mtu, highestMTU)
		}
	}
	for name, fields := range desired {
		if fields["state"] == "absent" {
			delete(interfaces, name)
			continue
		}
		if interfaces[name] == nil {
			interfaces[name] = document{}
		}
		maps.Copy(interfaces[name], fields)
	}
	return ""
}

// policy returns a policy for the fleet with one interface. atOnce limits the number of nodes that
// change at the same time.
func (f *fleet) policy(name string, atOnce int, wants document) *nmstatev1.NodeNetworkConfigurationPolicy {
	return &nmstatev1.NodeNetworkConfigurationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: f.name + "-" + name},
		Spec: nmstatev1.NodeNetworkConfigurationPolicySpec{
			NodeSelector: map[string]string{"fleet": f.name}, MaxUnavailable: new(intstr.FromInt32(int32(atOnce))),
			DesiredState: rawState(map[string]document{"": wants}),
		},
	}
}

// has makes a check of an interface of a node.
func (f *fleet) has(node, name string, want document) error {
	state := &v1beta1.NodeNetworkState{}
	if err := f.Get(f.t.Context(), client.ObjectKey{Name: node}, state); err != nil {
		return err
	}
	got := f.read(state.Status.CurrentState).interfaces()[name]
	if (got == nil) != (want == nil) {
		return fmt.Errorf("%s of node %s is %v, want %v", name, node, got, want)
	}
	for field, value := range want {
		if !reflect.DeepEqual(got[field], value) {
			return fmt.Errorf("%s of node %s is %v, want %v", name, node, got, want)
		}
	}
	return nil
}

// tally has the enactments of a fleet as the API server has had them, one change after the
// other.
type tally struct {
	mu         sync.Mutex
	enactments map[string]*v1beta1.NodeNetworkConfigurationEnactment
	// most is the highest number of slots that a policy has had, by policy. grants has how
	// often a node got a slot.
	most   map[string]int
	grants map[string]int
	// wrong has the values that must not be there.
	wrong []string
}

func (f *fleet) count() *tally {
	f.t.Helper()
	c := &tally{enactments: map[string]*v1beta1.NodeNetworkConfigurationEnactment{}, most: map[string]int{}, grants: map[string]int{}}
	f.follow(&v1beta1.NodeNetworkConfigurationEnactmentList{}, func(object client.Object, gone bool) {
		c.note(object.(*v1beta1.NodeNetworkConfigurationEnactment), gone)
	})
	return c
}

func (c *tally) note(e *v1beta1.NodeNetworkConfigurationEnactment, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.enactments[e.Name]
	delete(c.enactments, e.Name)
	if gone {
		return
	}
	c.enactments[e.Name] = e
	if e.Status.Policy == nil {
		return
	}
	if slotted(e) && (old == nil || !slotted(old)) {
		c.grants[e.Name]++
	}
	changes := meta.IsStatusConditionTrue(e.Status.Conditions, nmstatev1.ProgressingCondition) && e.Status.Undoing == nil
	if changes && !slotted(e) {
		c.wrong = append(c.wrong, e.Name+" changes without a slot")
	}
	slots := 0
	for _, other := range c.enactments {
		if slotted(other) && other.Status.Policy != nil && other.Status.Policy.Name == e.Status.Policy.Name {
			slots++
		}
	}
	c.most[e.Status.Policy.Name] = max(c.most[e.Status.Policy.Name], slots)
}

// slotted reports whether an enactment has a slot that was not taken back: that has the time of
// its grant.
func slotted(e *v1beta1.NodeNetworkConfigurationEnactment) bool {
	return e.Status.Slot != nil && e.Status.Slot.Expires.After(time.Now())
}

// once fails the test where a node did not get exactly one slot.
func (c *tally) once(t *testing.T, nodes int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.grants) != nodes {
		t.Errorf("%d nodes had slots, want %d", len(c.grants), nodes)
	}
	for name, grants := range c.grants {
		if grants != 1 {
			t.Errorf("%s had %d slots one after the other, want 1", name, grants)
		}
	}
}

// in counts the enactments with a condition, of all policies.
func (c *tally) in(condition string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, e := range c.enactments {
		if meta.IsStatusConditionTrue(e.Status.Conditions, condition) {
			n++
		}
	}
	return n
}

// all counts the enactments.
func (c *tally) all() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.enactments)
}

// atMost fails the test where more nodes had slots of a policy at once, or none, and where a
// node changed without one.
func (c *tally) atMost(t *testing.T, limit int, policies ...*nmstatev1.NodeNetworkConfigurationPolicy) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, policy := range policies {
		if most := c.most[policy.Name]; most < 1 || most > limit {
			t.Errorf("%d nodes had slots of %s at the same time, want at least one and at most %d", most, policy.Name, limit)
		}
	}
	for _, wrong := range c.wrong {
		t.Error(wrong)
	}
}
