// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// calm returns a world at rest with two hosts and an operator.
func calm(t *testing.T) *world {
	w := newWorld(t)
	w.operate()
	w.furnish(2)
	w.settle()
	return w
}

// pod returns a pod as the API has it, nil where it is gone.
func (w *world) pod(name string) *corev1.Pod {
	found, _ := w.api.objects[keyOf(newPod("shop", name, "", ""))].(*corev1.Pod)
	return found
}

// addresses lists the Addresses of a pod.
func (w *world) addresses(pod *corev1.Pod) []string {
	var names []string
	for _, address := range sorted[*v1alpha1.Address](w.api) {
		if address.Spec.Holder.UID == string(pod.UID) {
			names = append(names, address.Name)
		}
	}
	return names
}

func TestAddress_ADDFailsThreeTimes_Kept(t *testing.T) {
	w := calm(t)
	web := bound("web", "red", "", "node-1")
	w.create(web)
	w.settle()
	before, h := w.addresses(web), w.host("node-1")
	for range 3 { // a runtime repeats an ADD that failed like this
		h.del(h.sandboxes[0])
		w.settle()
	}
	if after := w.addresses(web); len(before) != 2 || !slices.Equal(before, after) || len(h.sandboxes) != 1 {
		t.Errorf("held %v, now %v, %d sandboxes", before, after, len(h.sandboxes))
	}
}

// TestAddress_OwnDecisionHeardLate_Kept looks at a pod again before the operator
// hears its own decision, when it would decide otherwise by now: the pod may run already.
func TestAddress_OwnDecisionHeardLate_Kept(t *testing.T) {
	for _, vpc := range []string{"none", "blue"} {
		t.Run("its Network is of VPC "+vpc+" by now", func(t *testing.T) {
			w := calm(t)
			o := w.operators[0]
			look := func(kind client.Object) {
				o.hearAll(kind)
				o.run(o.control("pod"), requestFor("shop", "web"))
			}
			web := bound("web", "red", "", "node-1")
			w.create(web)
			look(web)
			held := w.addresses(web)
			edit(w, newNetwork("shop", "red", ""), func(net *arktosv1.Network) { net.Spec.VPCID = vpc })
			look(newNetwork("", "", ""))
			if now := w.addresses(web); len(held) != 2 || !slices.Equal(now, held) {
				t.Errorf("the pod was told %v and holds %v", held, now)
			}
			if err := hasReason(v1alpha1.AttachedReason)(w.pod("web")); err != nil {
				t.Error(err)
			}
			w.settle()
			w.checkAtRest()
		})
	}
}

// TestAddress_ObjectsGoBeforeStatusHeard_Kept deletes the Addresses of a pod, and an
// operator hears that before it hears the pod's allocation status. It has written the status
// itself, or another operator has, which believes that it leads.
func TestAddress_ObjectsGoBeforeStatusHeard_Kept(t *testing.T) {
	for _, tc := range []struct {
		name string
		// operators is how many there are: the last one looks at the pod again.
		operators int
		// vpc is the VPC of the pod's Network by then, "none" for a VPC that does not exist.
		vpc string
	}{
		{"told by itself", 1, "red"},
		{"told by another", 2, "red"},
		{"told by another, of another VPC", 2, "blue"},
		{"told by another, and it would refuse", 2, "none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := calm(t)
			for len(w.operators) < tc.operators {
				w.operate()
			}
			w.settle()
			teller, late := w.operators[0], w.operators[tc.operators-1]
			w.create(bound("web", "red", `{"ip": "10.0.1.9"}`, "node-1"))
			for _, o := range w.operators {
				o.hearAll(&corev1.Pod{})
			}
			teller.run(teller.control("pod"), requestFor("shop", "web"))
			before := attachedTo(w.pod("web"))
			for _, name := range w.addresses(w.pod("web")) {
				w.api.drop(&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			w.create(bound("rival", "red", `{"ip": "10.0.1.9"}`, "node-2")) // no red one, once it is blue
			edit(w, newNetwork("shop", "red", ""), func(net *arktosv1.Network) { net.Spec.VPCID = tc.vpc })
			late.hearAll(&v1alpha1.Address{}, &arktosv1.Network{})
			late.run(late.control("pod"), requestFor("shop", "web"))
			if late != teller {
				w.crash(teller)
			}
			w.settle()
			if after := attachedTo(w.pod("web")); before == nil || !reflect.DeepEqual(before, after) {
				t.Errorf("the pod was told %+v, and now %+v", before, after)
			}
			if held := w.addresses(w.pod("web")); len(held) != 2 || !slices.Contains(held, "red.10.0.1.9") {
				t.Errorf("the pod holds %v", held)
			}
			w.checkAtRest()
		})
	}
}

// TestVNIClaim_DeletedBeforeAnswer_MadeAgain has the watch be faster than
// the answer.
func TestVNIClaim_DeletedBeforeAnswer_MadeAgain(t *testing.T) {
	w := calm(t)
	deleted := 0
	w.intercept = func(_ string, o *instance, verb string, object client.Object, effect func() error) error {
		err := effect()
		if _, claim := object.(*v1alpha1.VNIClaim); claim && verb == "create" && deleted == 0 {
			o.hearAll(object)
			w.api.drop(object)
			o.hearAll(object)
			deleted++
		}
		return err
	}
	w.create(newVPC("green", []string{"*"}, "10.0.0.0/16"))
	w.settle()
	if deleted != 1 {
		t.Error("no claim was made")
	}
	w.checkAtRest()
}

// hearAll takes in all news of some kinds.
func (o *instance) hearAll(kinds ...client.Object) {
	for _, kind := range kinds {
		for news := o.inputs.of(reflect.TypeOf(kind)); news.behind(); {
			news.hear()
		}
	}
}

// TestRefusedPod_CopiedAnnotations_Removed copies the annotations of an attached pod to a refused
// one.
func TestRefusedPod_CopiedAnnotations_Removed(t *testing.T) {
	w := calm(t)
	w.create(bound("given", "red", "", "node-1"), bound("refused", "none", "", "node-1"))
	w.settle()
	edit(w, w.pod("refused"), func(pod *corev1.Pod) { pod.Annotations = w.pod("given").Annotations })
	w.settle()
	if pod := w.pod("refused"); attachedTo(pod) != nil || hasReason(v1alpha1.NetworkNotFoundReason)(pod) != nil {
		t.Errorf("annotations %v, condition %+v", pod.Annotations, readiness(pod))
	}
	w.checkAtRest()
}

func TestAddress_PodForceDeleted_StaysUntilNodeReleases(t *testing.T) {
	w := calm(t)
	w.create(bound("lost", "red", `{"ip": "10.0.1.9"}`, "node-1"))
	w.settle()
	w.host("node-1").up = false
	w.api.drop(w.pod("lost"))
	w.create(bound("next", "red", `{"ip": "10.0.1.9"}`, "node-2"))
	w.settle()
	condition := readiness(w.pod("next"))
	for _, part := range []string{"shop/lost", "node-1", "delete its Node object", "node.kubernetes.io/out-of-service"} {
		if condition.Reason != v1alpha1.IPReleasingReason || !strings.Contains(condition.Message, part) {
			t.Errorf("the successor is told %s: %s; want %s with %q", condition.Reason, condition.Message, v1alpha1.IPReleasingReason, part)
		}
	}
	w.host("node-1").up = true // back, and the sandbox is found to be nobody's
	w.settle()
	if attachedTo(w.pod("next")) == nil {
		t.Errorf("the successor has %+v once the node is back", readiness(w.pod("next")))
	}
	w.checkAtRest()
}

func TestAddresses_DeletedByHand_ReturnToLivingPods(t *testing.T) {
	w := calm(t)
	var names []string
	w.create(bound("fixed", "red", `{"ip": "10.0.1.9"}`, "node-1"), bound("other", "red", "", "node-2"))
	w.settle()
	w.create(bound("waiting", "red", `{"ip": "10.0.1.9"}`, "node-2"))
	w.settle()
	if reason := readiness(w.pod("waiting")).Reason; reason != v1alpha1.IPInUseReason {
		t.Fatalf("the second pod with one address has reason %s", reason)
	}
	w.host("node-1").up = false // nothing is released there
	for _, address := range sorted[*v1alpha1.Address](w.api) {
		names = append(names, address.Name)
		w.api.drop(address)
	}
	// The result must not depend on the order of pods in an operator.
	o := w.operators[0]
	for _, i := range o.inputs.all {
		for i.behind() {
			i.hear()
		}
	}
	for _, c := range o.controls {
		if c.name == "pod" {
			o.run(c, requestFor("shop", "waiting"))
		}
	}
	w.settle()
	var after []string
	for _, address := range sorted[*v1alpha1.Address](w.api) {
		after = append(after, address.Name)
	}
	if held := w.addresses(w.pod("fixed")); !slices.Contains(held, "red.10.0.1.9") {
		t.Errorf("the pod that was told red.10.0.1.9 holds %v", held)
	}
	if len(after) != len(names) || attachedTo(w.pod("waiting")) != nil {
		t.Errorf("Addresses were %v, are %v", names, after)
	}
	w.host("node-1").up = true
	w.settle()
	w.checkAtRest()
}

func TestOperator_APIRestored_WaitsForLivingSandboxes(t *testing.T) {
	w := calm(t)
	backup := w.api.snapshot()
	// It lives after the backup only. Its node is to cut it off before anybody gets
	// its address.
	w.create(bound("unknown", "red", "", "node-1"))
	w.settle()
	w.crash(w.operators[0])
	w.api.restore(backup)
	for _, h := range w.hosts {
		h.inputs.listAll()
	}
	newcomer := bound("newcomer", "red", "", "node-2")
	w.create(newcomer)
	w.operate()
	hurried := w.host("node-1")
	hurried.up = false // slow: the operator goes as far as it can
	for range 50 {
		for _, one := range w.choices() {
			w.do(one)
		}
	}
	if attachedTo(w.pod("newcomer")) != nil {
		t.Fatal("the newcomer was told an address before node-1 had answered")
	}
	hurried.up = true
	w.settle()
	got := w.addresses(w.pod("newcomer"))
	if len(got) != 2 {
		t.Errorf("the newcomer holds %v once node-1 has answered", got)
	}
	w.checkAtRest()
}

// TestAddress_APIRestoredToEarlier_SandboxKeepsIt restores a backup of the moment before a
// pod was told its addresses, while a sandbox of it runs with them.
func TestAddress_APIRestoredToEarlier_SandboxKeepsIt(t *testing.T) {
	restored := func(t *testing.T, report bool) (w *world, before []string) {
		w = calm(t)
		web := bound("web", "red", "", "node-1")
		w.create(web)
		backup := w.api.snapshot()
		w.settle()
		before = w.addresses(web)
		ips := w.host("node-1").sandboxes[0].ips
		w.crash(w.operators[0])
		w.api.restore(backup)
		w.host("node-1").inputs.listAll()
		if report {
			edit(w, web, func(pod *corev1.Pod) {
				for _, ip := range ips {
					pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip.String()})
				}
			})
		}
		w.create(bound("another", "red", "", "node-2"))
		w.operate()
		w.settle()
		return w, before
	}
	t.Run("and has said so", func(t *testing.T) {
		w, before := restored(t, true)
		if now := w.addresses(w.pod("web")); !slices.Equal(now, before) || len(before) != 2 {
			t.Errorf("the pod holds %v, its sandbox lives with %v", now, before)
		}
		w.checkAtRest()
	})
	t.Run("and has not said so yet", func(t *testing.T) {
		w, before := restored(t, false)
		h := w.host("node-1")
		if now := w.addresses(w.pod("web")); !slices.Equal(now, before) && !h.lost(h.sandboxes[0]) {
			t.Errorf("the pod holds %v, and its sandbox still lives with %v", now, before)
		}
		w.checkAtRest()
	})
}

func TestRunningPods_NamespaceOrNetworkMoves_Stay(t *testing.T) {
	w := calm(t)
	w.create(bound("stays", "red", "", "node-1"))
	w.settle()
	held := w.addresses(w.pod("stays"))

	edit(w, newNetwork("shop", "red", ""), func(net *arktosv1.Network) { net.Spec.VPCID = "blue" })
	w.create(bound("after", "red", "", "node-1"))
	w.settle()
	if now := w.addresses(w.pod("stays")); !slices.Equal(now, held) {
		t.Errorf("the running pod held %v, holds %v after its Network moved", held, now)
	}
	if got := attachedTo(w.pod("after")); got == nil || got.VPC != "blue" {
		t.Errorf("a new pod was told %+v, want VPC blue", got)
	}
	if text := networkMessage(w, "red"); !strings.Contains(text, "1 pod(s) keep another VPC: Pod shop/stays (VPC red)") {
		t.Errorf("the Network says: %s", text)
	}

	edit(w, newNamespace("shop", ""), func(ns *corev1.Namespace) { ns.Labels[v1alpha1.TenantLabel] = "other" })
	w.create(bound("foreign", "red", "", "node-1"))
	w.settle()
	if now := w.addresses(w.pod("stays")); !slices.Equal(now, held) {
		t.Errorf("the running pod held %v, holds %v after its namespace moved", held, now)
	}
	if condition := readiness(w.pod("foreign")); condition == nil || condition.Reason != v1alpha1.NetworkNotReadyReason {
		t.Errorf("a new pod of a tenant that no VPC allows has %+v", condition)
	}
	if text := networkMessage(w, "red"); !strings.Contains(text, "does not allow tenant \"other\"") {
		t.Errorf("the Network says: %s", text)
	}
	w.checkAtRest()
}

func networkMessage(w *world, name string) string {
	net := w.api.objects[keyOf(newNetwork("shop", name, ""))].(*arktosv1.Network)
	for _, condition := range net.Status.Conditions {
		if condition.Type == v1alpha1.ReadyCondition {
			return condition.Message
		}
	}
	return ""
}

// TestRanges_DeletedBeforeHolders_GoWithoutBusyWaiting deletes a VPC, its subnets and its Network first,
// and the holders of their addresses afterwards.
func TestRanges_DeletedBeforeHolders_GoWithoutBusyWaiting(t *testing.T) {
	holders := []client.Object{newVPC("blue", nil), ranges("blue.net1"), ranges("blue.net2"), newNetwork("shop", "blue", "")}
	for first := range holders {
		w := calm(t)
		w.create(bound("web", "blue", "", "node-1"))
		w.settle()
		order := slices.Concat(holders[first:], holders[:first])
		for _, object := range order {
			w.mustDelete(clone(object))
			w.settle()
		}
		o, writes := w.operators[0], len(w.api.log)
		clear(o.reconciles)
		w.settle() // at least 45 s without a change
		if len(o.reconciles) > 0 || len(w.api.log) != writes {
			t.Errorf("while pods hold them: reconciled %v, %d writes", o.reconciles, len(w.api.log)-writes)
		}
		for _, object := range holders[:2] {
			if _, there := w.api.objects[keyOf(object)]; !there {
				t.Errorf("%s went while a pod used it", object.GetName())
			}
		}
		w.api.markDeleting(w.pod("web"))
		w.settle()
		for _, object := range order {
			if _, there := w.api.objects[keyOf(object)]; there {
				t.Errorf("%s is still there", object.GetName())
			}
		}
		w.checkAtRest()
	}
}

// TestRequests_OnePod_ClaimPerAddressAndPatch counts all requests of the
// operator, reads included.
func TestRequests_OnePod_ClaimPerAddressAndPatch(t *testing.T) {
	w := calm(t)
	requests := map[string]int{}
	w.intercept = func(_ string, o *instance, verb string, object client.Object, effect func() error) error {
		if o != nil && verb != fromCache {
			requests[verb+" "+group(object).Resource]++
		}
		return effect()
	}
	pods := []*corev1.Pod{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		pods = append(pods, bound(name, "red", `{"subnet": "net1"}`, "node-1"))
		w.create(pods[len(pods)-1])
	}
	w.settle()
	if requests["create Address"] != 12 || requests["patch status Pod"] != 6 {
		t.Errorf("6 pods of 2 families took %v", requests)
	}
	for _, pod := range pods {
		w.api.markDeleting(w.api.objects[keyOf(pod)])
	}
	w.settle()
	delete(requests, "create Address")
	delete(requests, "patch status Pod")
	// The figures of one subnet and one VPC, for all of them together, and whether the
	// subnet is in use.
	for what, most := range map[string]int{"update Usage": 8, "patch status Subnet": 2, "patch status Network": 4} {
		if requests[what] > most {
			t.Errorf("%s %d times for 6 pods", what, requests[what])
		}
		delete(requests, what)
	}
	if len(requests) > 0 {
		t.Errorf("requests nobody needs: %v", requests)
	}
}

// TestVNIClaim_NodeSilent_HeldAcrossOperators deletes a VPC while a node
// that has it does not reply.
func TestVNIClaim_NodeSilent_HeldAcrossOperators(t *testing.T) {
	w := calm(t)
	w.host("node-2").up = false
	w.mustDelete(newVPC("blue", nil), ranges("blue.net1"), ranges("blue.net2"))
	vni := w.api.objects[keyOf(newVPC("blue", nil))].(*v1alpha1.VPC).Status.VNI
	w.settle()
	successor := newVPC("green", nil, "10.0.0.0/16")
	successor.Spec.VNI = &vni
	w.create(successor)
	w.settle()
	w.crash(w.operators[0])
	w.operate()
	w.settle()
	green := func() *v1alpha1.VPC { return w.api.objects[keyOf(successor)].(*v1alpha1.VPC) }
	if text := green().Status.Conditions[0].Message; green().Status.VNI != 0 || !strings.Contains(text, "missing: node-2") {
		t.Errorf("VPC green has VNI %d: %s", green().Status.VNI, text)
	}
	w.host("node-2").up = true
	w.settle()
	if green().Status.VNI != vni {
		t.Errorf("VPC green has VNI %d, want %d once all have answered", green().Status.VNI, vni)
	}
	w.checkAtRest()
}

// TestSubnet_DeletedWhileReconciled_StaysGone: the informers continue beside the
// controllers, so an object that a controller has read may be gone when it acts on it. A
// row that is never removed would hold the VPC for ever.
func TestSubnet_DeletedWhileReconciled_StaysGone(t *testing.T) {
	w := calm(t)
	o, net1 := w.operators[0], ranges("blue.net1")
	w.mustDelete(w.api.objects[keyOf(net1)])
	subnets := o.inputs.of(reflect.TypeOf(net1))
	subnets.hear()
	w.api.drop(w.api.objects[keyOf(net1)]) // an earlier look has let it go
	w.intercept = func(_ string, o *instance, verb string, _ client.Object, effect func() error) error {
		err := effect()
		if o != nil && verb == fromCache {
			subnets.hear()
		}
		return err
	}
	o.run(o.control("subnet"), requestFor("", net1.Name))
	w.intercept = nil
	w.mustDelete(w.api.objects[keyOf(ranges("blue.net2"))], w.api.objects[keyOf(newVPC("blue", nil))])
	w.settle()
	if vpc, left := w.api.objects[keyOf(newVPC("blue", nil))].(*v1alpha1.VPC); left {
		t.Errorf("VPC blue, which has no subnets any more, is still there: %+v", vpc.Status.Conditions)
	}
}
