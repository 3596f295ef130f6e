// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/announce"
)

// spoil changes an object so that it is left out, as an earlier definition without rules, or a
// restored backup, can.
func spoil(object client.Object) {
	switch o := object.(type) {
	case *v1alpha1.VPC:
		o.Spec.CIDRs = []string{"127.0.0.0/8"}
	case *v1alpha1.Subnet:
		o.Spec.CIDRs = []string{"somewhere"}
	case *v1alpha1.ExternalPool:
		o.Spec.CIDRs = []string{"nowhere"}
	case *v1alpha1.HostAccess:
		o.Spec.HostPorts = []string{"0"}
	}
}

// toldLeftOut reports that the condition of an object tells that it is left out, and why.
func toldLeftOut(object client.Object) error {
	conditions := conditionsOf(object)
	if err := ready(conditions, v1alpha1.ObjectLeftOutReason); err != nil {
		return err
	}
	if message := meta.FindStatusCondition(conditions, v1alpha1.ReadyCondition).Message; !strings.Contains(message, "correct or delete it") {
		return errors.New("the condition has no remedy: " + message)
	}
	return nil
}

// TestLeftOutObject_Condition_WhileLeftOut: the condition is also there if the object is left out
// when the operator starts.
func TestLeftOutObject_Condition_WhileLeftOut(t *testing.T) {
	objects := []client.Object{
		newVPC("blue", []string{"shop"}, "10.0.0.0/16"), ranges("green.net1", "10.0.1.0/28"),
		newPool(
			"edge",
			[]string{"shop"},
			"192.0.2.16-192.0.2.17",
		), newHostAccess("ports", v1alpha1.HostAccessSpec{AllowedTenants: []string{"shop"}, HostPorts: []string{"8080"}}),
	}
	if len(objects) != len(announce.LeftOutKinds())-1 {
		t.Errorf("%d objects for %d kinds, of which Networks are always read", len(objects), len(announce.LeftOutKinds()))
	}
	for _, restarts := range []bool{false, true} {
		w := newWorld(t)
		w.operate()
		w.create(newVPC("green", []string{"shop"}, "10.0.0.0/16"))
		for _, object := range objects {
			w.create(clone(object))
		}
		all := func(is func(client.Object) error) {
			t.Helper()
			for _, object := range objects {
				if err := is(w.api.objects[keyOf(object)]); err != nil {
					t.Errorf("restart %v: %T %s: %v", restarts, object, object.GetName(), err)
				}
			}
		}
		w.settle()
		all(isServed)
		if restarts {
			w.crash(w.operators[0])
		}
		for _, object := range objects {
			edit(w, object, spoil)
		}
		if restarts {
			w.operate()
		}
		w.settle()
		all(toldLeftOut)
		for _, object := range objects {
			sound := clone(object)
			edit(w, object, func(o client.Object) { respec(o, sound) })
		}
		w.settle()
		all(isServed)
	}
}

// respec gives an object the spec of another one.
func respec(object, other client.Object) {
	switch o := object.(type) {
	case *v1alpha1.VPC:
		o.Spec = other.(*v1alpha1.VPC).Spec
	case *v1alpha1.Subnet:
		o.Spec = other.(*v1alpha1.Subnet).Spec
	case *v1alpha1.ExternalPool:
		o.Spec = other.(*v1alpha1.ExternalPool).Spec
	case *v1alpha1.HostAccess:
		o.Spec = other.(*v1alpha1.HostAccess).Spec
	}
}

// TestLeftOutObject_Deleted_Ends: an object whose row the operator never had ends too. It was stored
// before its values were refused, has the finalizer, and the operator has started since.
func TestLeftOutObject_Deleted_Ends(t *testing.T) {
	broken := newVPC("blue", nil, "127.0.0.0/8")
	broadcast := ranges("green.net1", "10.0.1.0/28")
	broadcast.Spec.Gateway = []string{"10.0.1.15"}
	for _, deletedBefore := range []bool{false, true} {
		w := newWorld(t)
		w.create(newVPC("green", []string{"shop"}, "10.0.0.0/16"))
		objects := []client.Object{clone[client.Object](broken), clone[client.Object](broadcast)}
		for _, object := range objects {
			object.SetFinalizers([]string{v1alpha1.Finalizer})
			w.create(object)
		}
		if deletedBefore {
			w.remove(objects)
		}
		w.operate()
		w.settle()
		for _, object := range objects {
			there := w.api.objects[keyOf(object)]
			if !deletedBefore {
				if err := toldLeftOut(there); err != nil {
					t.Errorf("%T %s: %v", object, object.GetName(), err)
				}
				w.mustDelete(there)
			}
		}
		w.settle()
		for _, object := range objects {
			if w.api.objects[keyOf(object)] != nil {
				t.Errorf("deleted before the operator started %t: %T %s is left", deletedBefore, object, object.GetName())
			}
		}
	}
}

// TestLaterVersionValue_InObject_ConditionUntilKnown: the object is served again once it has a
// known value. An object beside it is served all the time.
func TestLaterVersionValue_InObject_ConditionUntilKnown(t *testing.T) {
	objects := []client.Object{
		newVPC("blue", []string{"shop"}, "10.0.0.0/16"),
		ranges("green.net1", "10.0.1.0/28"),
		newPool("edge", []string{"shop"}, "192.0.2.16-192.0.2.17"),
	}
	later := func(object client.Object) {
		switch o := object.(type) {
		case *v1alpha1.VPC:
			o.Spec.Egress = "Translate"
		case *v1alpha1.Subnet:
			o.Spec.Use = "Guests"
		case *v1alpha1.ExternalPool:
			o.Spec.Use = "Gateways"
		}
	}
	w := newWorld(t)
	w.operate()
	beside := newVPC("green", []string{"shop"}, "10.0.0.0/16")
	w.create(beside)
	for _, object := range objects {
		w.create(clone(object))
		edit(w, object, later)
	}
	w.settle()
	for _, object := range objects {
		current := w.api.objects[keyOf(object)]
		if err := toldLeftOut(current); err != nil {
			t.Errorf("%T: %v", object, err)
		} else if message := meta.FindStatusCondition(conditionsOf(current), v1alpha1.ReadyCondition).Message; !strings.Contains(message, "upgrade Alioth") {
			t.Errorf("%T: the condition does not name the upgrade: %s", object, message)
		}
		sound := clone(object)
		edit(w, object, func(o client.Object) { respec(o, sound) })
	}
	w.settle()
	for _, object := range append(objects, beside) {
		if err := isServed(w.api.objects[keyOf(object)]); err != nil {
			t.Errorf("%T %s: %v", object, object.GetName(), err)
		}
	}
}
