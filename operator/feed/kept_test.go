// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"errors"
	"reflect"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
)

// TestInformer_KindReadFromStore_RowKept: of kinds that nobody reads from them, under the name of the object.
func TestInformer_KindReadFromStore_RowKept(t *testing.T) {
	for _, kind := range keptAsRows {
		object := kind.NewObject()
		object.SetNamespace("a")
		object.SetName("x")
		object.SetUID("u")
		object.SetResourceVersion("7")
		got, err := Keep(object)
		if err != nil {
			t.Fatal(err)
		}
		accessor, err := meta.Accessor(got)
		if err != nil {
			t.Fatalf("%s: %v", kind.Name, err)
		}
		if accessor.GetNamespace() != "a" || accessor.GetName() != "x" || accessor.GetUID() != "u" || accessor.GetResourceVersion() != "7" {
			t.Errorf("%s: kept as %v", kind.Name, accessor)
		}
		if key, err := toolscache.MetaNamespaceKeyFunc(got); key != "a/x" || err != nil {
			t.Errorf("%s: the informers' key is %q, %v", kind.Name, key, err)
		}
		if again, err := Keep(got); again != got || err != nil {
			t.Errorf("%s: kept again as %v, %v", kind.Name, again, err)
		}
		if _, isObject := got.(kube.Object); isObject {
			t.Errorf("%s: the informers keep the object", kind.Name)
		}
	}
}

func TestInformer_KindWithoutRow_ObjectKept(t *testing.T) {
	vpc := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "v", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
	got, err := Keep(vpc)
	if err != nil || got != any(vpc) || len(vpc.ManagedFields) > 0 {
		t.Errorf("kept %v, %v", got, err)
	}
}

// TestFeed_KeptRow_StoredLikeObject: an object that can't be read changes nothing.
func TestFeed_KeptRow_StoredLikeObject(t *testing.T) {
	f := New(operatortest.New(t), logr.Discard())
	log := listen(f)
	h := f.handler(Pod, &batch{feed: f, kind: Pod})
	pod := newPod("one")
	pod.Spec = corev1.PodSpec{Hostname: "h", Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}}}}
	kept := keep(Pod, pod)
	h.OnAdd(kept, false)
	f.Store().View(func(tx store.ReadTx) {
		want := &store.PodEndpoint{Hostname: "h", Ports: []store.NamedPort{{Name: "web", Protocol: "TCP", Port: 8080}}}
		if row := store.GetPod(tx, "one"); row == nil || !reflect.DeepEqual(row.Endpoint, want) {
			t.Errorf("the store has %+v", row)
		}
	})
	unreadable := *kept
	unreadable.row, unreadable.err = nil, errors.New("no")
	h.OnUpdate(kept, &unreadable)
	if want := (heard{now: "one", stored: "one"}); len(*log) != 1 || (*log)[0] != want {
		t.Errorf("heard %+v, want %+v", *log, want)
	}
}
