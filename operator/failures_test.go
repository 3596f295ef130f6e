// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/soak"
)

// life runs the whole life of two pods, a VPC and three load balancers, from the first VPC to the
// last release. One pod has an address of its own choice. One load balancer comes to ask for an
// address outside.
func life(w *world) {
	w.operate()
	w.furnish(2)
	w.balance()
	w.settle()
	web := bound("web-0", "blue", "", "node-1")
	db := bound("db-0", "red", `{"ip": "10.0.1.9"}`, "node-2")
	w.create(web, db, balancer("first", "blue", nil), balancer("second", "red", asking("10.0.3.4")), balancer("third", "blue", externally()))
	w.settle()
	edit(w, balancer("second", "", nil), func(service *corev1.Service) { service.Annotations = externally() })
	successor := bound("next", "red", `{"ip": "10.0.1.9"}`, "node-1")
	w.create(successor)
	for _, pod := range []*corev1.Pod{web, db} {
		w.api.markDeleting(w.api.objects[keyOf(pod)])
	}
	w.mustDelete(w.api.objects[keyOf(balancer("first", "", nil))], w.api.objects[keyOf(balancer("third", "", nil))])
	w.settle()
	w.mustDelete(
		w.api.objects[keyOf(ranges("blue.lb"))],
		w.api.objects[keyOf(ranges("blue.net1"))],
		w.api.objects[keyOf(ranges("blue.net2"))],
		w.api.objects[keyOf(newNetwork("shop", "blue", ""))],
		w.api.objects[keyOf(newVPC("blue", nil))],
	)
	w.settle()
}

func (w *world) mustDelete(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.api.delete(object, nil); err != nil {
			w.t.Fatal(err)
		}
	}
}

func isWrite(verb string) bool { return verb != "get" && verb != "list" && verb != fromCache }

// TestWrites_EachFails_NothingLostOrLeaked counts the writes of the lives of
// pods and VPCs, and lives them again with each write in turn failing in each
// way, operators' and daemons' alike. In `make test` each write fails in one of the ways.
func TestWrites_EachFails_NothingLostOrLeaked(t *testing.T) {
	writes := 0
	w := newWorld(t)
	w.intercept = func(_ string, _ *instance, verb string, _ client.Object, effect func() error) error {
		if isWrite(verb) {
			writes++
		}
		return effect()
	}
	life(w)
	w.checkAtRest()
	if writes < 30 {
		t.Fatalf("only %d writes in the whole life: the scenario lives too little", writes)
	}
	ways := soak.Or(t, int(outcomes-failsBefore), 1)
	t.Logf("%d writes, each fails in %d ways", writes, ways)
	for fails := range writes {
		for way := range ways {
			fate := failsBefore + outcome(fails+way)%(outcomes-failsBefore)
			t.Run(fmt.Sprintf("write %d %s", fails+1, fate), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				count := 0
				w.intercept = func(_ string, o *instance, verb string, object client.Object, effect func() error) error {
					if isWrite(verb) {
						if count++; count == fails+1 {
							w.note("  the next request %s", fate)
							return w.meets(fate, o, object, effect)
						}
					}
					return effect()
				}
				life(w)
				if next := w.api.objects[keyOf(newPod("shop", "next", "", ""))].(*corev1.Pod); attachedTo(next) == nil {
					w.fail("the successor did not get its address: %+v", readiness(next))
				}
				if _, left := w.api.objects[keyOf(newVPC("blue", nil))]; left {
					w.fail("VPC blue is still there")
				}
				if second := w.api.objects[keyOf(balancer("second", "", nil))].(*corev1.Service); shows("192.0.2.17")(second) != nil && shows("192.0.2.16")(second) != nil {
					w.fail("load balancer second shows %v", second.Status.LoadBalancer.Ingress)
				}
				w.intercept = nil
				w.checkAtRest()
			})
		}
	}
}
