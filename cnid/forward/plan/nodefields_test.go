// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/store"
)

// TestNodeFields_EachField_Considered changes each field of the rows of nodes, one after the other,
// and compares the plan that is kept with one from nothing.
func TestNodeFields_EachField_Considered(t *testing.T) {
	for _, name := range []string{"node1", "node2"} {
		for _, field := range reflect.VisibleFields(reflect.TypeFor[store.Node]()) {
			if field.Anonymous || field.Name == "Name" {
				continue
			}
			t.Run(name+" "+field.Name, func(t *testing.T) {
				a, p := newArena(t, false), &Planner{}
				w := a.world
				w.plan(p, a.adapt)
				changed := w.changeNode(t, name, field)
				if diff := cmp.Diff(w.build(a.adapt), together(w.plan(p, a.adapt)), byValue); diff != "" {
					t.Errorf("a plan after the change to %v (-anew +kept):\n%s", changed, diff)
				}
			})
		}
	}
}

// changeNode gives a field of a node's row another value.
func (w *world) changeNode(t *testing.T, name string, field reflect.StructField) (changed any) {
	t.Helper()
	w.put(t, func(tx store.Tx) error {
		row := *store.GetNode(tx, name)
		value := reflect.ValueOf(&row).Elem().FieldByIndex(field.Index)
		switch old := value.Interface().(type) {
		case []netip.Addr:
			value.Set(reflect.ValueOf(append([]netip.Addr{ip("192.0.2.77")}, old...)))
		case []string:
			value.Set(reflect.ValueOf(append([]string{"vendor.example/nic"}, old...)))
		case string:
			value.SetString(old + "9")
		case time.Time:
			value.Set(reflect.ValueOf(old.Add(time.Hour)))
		case bool:
			value.SetBool(!old)
		case int, int64:
			value.SetInt(value.Int() + 1)
		case uint16, uint32, uint64:
			value.SetUint(value.Uint() + 1)
		default:
			t.Fatalf("no other value for a %T", old)
		}
		changed = value.Interface()
		return store.PutNode(tx, &row)
	})
	return changed
}

// TestPlan_IrrelevantKubeletReport_NodePlanKept: a kubelet says of its node what no plan goes by, as often as it
// likes.
func TestPlan_IrrelevantKubeletReport_NodePlanKept(t *testing.T) {
	a, p := newArena(t, false), &Planner{}
	w := a.world
	w.plan(p, a.adapt)
	for _, name := range []string{"Ready", "Pods", "Selection", "NodeIPAM", "NoBalancers", "Pools"} {
		field, _ := reflect.TypeFor[store.Node]().FieldByName(name)
		w.changeNode(t, "node2", field)
	}
	w.store.View(func(tx store.ReadTx) {
		if stale := p.compare(tx, w.input(a.adapt)); !reflect.DeepEqual(stale, newStale()) {
			t.Errorf("to be planned are %+v", stale)
		}
	})
}
