// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// intrude makes an Address of node-2 in the name of a pod, as a daemon's token could
// when daemons had the right to.
func (w *world) intrude(vpc, ip, pod string) *v1alpha1.Address {
	holder := w.pod(pod)
	address := &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(vpc, netip.MustParseAddr(ip))},
		Spec: v1alpha1.AddressSpec{
			VPC: vpc, Subnet: vpc + ".net1", IP: ip, MAC: "02:00:00:00:00:66", Node: "node-2", Attachment: v1alpha1.PodAttachment,
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "shop", Name: pod, UID: string(holder.UID)},
			Set:    []string{ip},
		},
	}
	w.create(address)
	return address
}

func TestForgedAddress_PodOfOtherNode_NoEffect(t *testing.T) {
	t.Run("of a pod that waits", func(t *testing.T) {
		w := calm(t)
		w.create(bound("victim", "red", "", "node-1"))
		for _, one := range []struct{ vpc, ip string }{{"red", "10.0.1.7"}, {"blue", "10.0.1.7"}} {
			intruder := w.intrude(one.vpc, one.ip, "victim")
			defer func() {
				if _, there := w.api.objects[keyOf(intruder)]; there {
					t.Errorf("%s is still there", intruder.Name)
				}
			}()
		}
		w.settle()
		got := attachedTo(w.pod("victim"))
		if got == nil || got.VPC != "red" || strings.HasPrefix(got.Addresses[0].String(), "10.0.1.7/") || len(w.host("node-1").sandboxes) != 1 {
			t.Errorf("the pod was told %+v", got)
		}
		w.checkAtRest()
	})
	t.Run("of a pod that runs, beside its own", func(t *testing.T) {
		w := calm(t)
		w.create(bound("victim", "red", "", "node-1"))
		w.settle()
		before := w.addresses(w.pod("victim"))
		w.intrude("red", "10.0.1.7", "victim")
		w.settle()
		if after := w.addresses(w.pod("victim")); len(before) != 2 || !slices.Equal(before, after) {
			t.Errorf("the pod held %v, holds %v", before, after)
		}
		if n := w.operators[0].events["node-2 "+v1alpha1.AddressNotOfNodeReason]; n != 1 {
			t.Errorf("%d events of the node tell of it", n)
		}
		w.checkAtRest()
	})
	t.Run("in the place of what a pod was told", func(t *testing.T) {
		w := calm(t)
		w.create(bound("victim", "red", `{"ip": "10.0.1.9"}`, "node-1"), bound("bystander", "red", "", "node-1"))
		w.settle()
		held := w.api.objects[keyOf(&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: "red.10.0.1.9"}})].(*v1alpha1.Address)
		w.api.drop(held)
		w.intrude("red", "10.0.1.9", "bystander")
		w.create(bound("rival", "red", `{"ip": "10.0.1.9"}`, "node-2")) // wants it, and is not told it before
		w.settle()
		if now := w.addresses(w.pod("victim")); !slices.Contains(now, "red.10.0.1.9") {
			t.Errorf("the pod that was told red.10.0.1.9 holds %v", now)
		}
		if attachedTo(w.pod("rival")) != nil {
			t.Error("the rival has it, too")
		}
		w.checkAtRest()
	})
}

// TestAddress_NodeTokenDeletes_NobodyGetsIt: a token has that right.
func TestAddress_NodeTokenDeletes_NobodyGetsIt(t *testing.T) {
	w := calm(t)
	w.create(bound("held", "red", `{"ip": "10.0.1.9"}`, "node-2"))
	w.settle()
	w.create(bound("rival", "red", `{"ip": "10.0.1.9"}`, "node-1"))
	w.settle()
	before := w.addresses(w.pod("held"))
	for range 3 {
		for _, name := range before {
			if object, there := w.api.objects[keyOf(&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: name}})]; there {
				w.api.drop(object)
			}
		}
		w.settle()
	}
	if after := w.addresses(w.pod("held")); len(before) != 2 || !slices.Equal(before, after) || attachedTo(w.pod("rival")) != nil {
		t.Errorf("the pod held %v, holds %v; the rival was told %+v", before, after, attachedTo(w.pod("rival")))
	}
	w.checkAtRest()
}

func TestNode_KeepsTooManyVNIs_Event(t *testing.T) {
	w := calm(t)
	answer := w.api.objects[keyOf(&v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall("node-2")}})].(*v1alpha1.RollCall)
	forged := clone(answer)
	for vni := range int32(4096) {
		forged.Spec.VNIs = append(forged.Spec.VNIs, 100_000-vni)
	}
	h := w.host("node-2")
	h.up = false // the daemon would answer anew
	w.api.keep(forged, answer)
	w.settle()
	if n := w.operators[0].events["node-2 "+v1alpha1.TooManyVNIsReason]; n != 1 {
		t.Errorf("%d events of the node tell of it", n)
	}
	h.up = true
	w.settle()
	w.checkAtRest()
}

func TestNode_ReadyButSilent_Event(t *testing.T) {
	w := calm(t)
	h := w.host("node-2")
	h.up = false // but its Node is Ready
	w.mustDelete(newVPC("blue", nil), ranges("blue.net1"), ranges("blue.net2"))
	for range 3 { // of 45 s each at least
		w.settle()
	}
	if n := w.operators[0].events["node-2 "+v1alpha1.RollCallUnansweredReason]; n != 1 {
		t.Errorf("%d events of the node tell of it", n)
	}
	h.up = true
	w.settle()
	w.checkAtRest()
}

// TestDefaultVPC_KubeletReportsItsAddresses_StaysReady: a kubelet's token reports addresses of its Node in the default VPC.
// The VPC stays ready, and the node gets one event about each.
func TestDefaultVPC_KubeletReportsItsAddresses_StaysReady(t *testing.T) {
	w := calm(t)
	node := w.api.objects[keyOf(newNode("node-2"))].(*corev1.Node)
	forged := clone(node)
	for _, ip := range []string{"10.244.0.77", "10.244.255.254", "fd10:244::77"} {
		forged.Status.Addresses = append(forged.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	w.api.keep(forged, node)
	w.settle()
	for range 2 { // once more, as after a change of anything else
		w.settle()
	}
	vpc := w.api.objects[keyOf(newVPC(v1alpha1.DefaultVPCName, nil))].(*v1alpha1.VPC)
	if ready := meta.FindStatusCondition(vpc.Status.Conditions, v1alpha1.ReadyCondition); ready == nil || ready.Status != metav1.ConditionTrue {
		t.Errorf("the default VPC is %+v", ready)
	}
	if n := w.operators[0].events["node-2 "+v1alpha1.NodeAddressDoubtedReason]; n != 3 {
		t.Errorf("%d events of the node tell of its 3 addresses", n)
	}
	w.checkAtRest()
}

// TestPodFields_CopiedFromOtherPod_GiveNothing: a tenant copies fields from the pod whose address it wants
// to its own pod, before the own pod has addresses, and after that.
func TestPodFields_CopiedFromOtherPod_GiveNothing(t *testing.T) {
	const wanted = `{"ip": "10.0.1.9"}`
	for name, alike := range map[string]func(rival, victim *corev1.Pod){
		"nothing else": func(_, _ *corev1.Pod) {},
		"ownerReferences": func(rival, victim *corev1.Pod) {
			rival.OwnerReferences = victim.OwnerReferences
		},
		"ownerReferences to the pod": func(rival, victim *corev1.Pod) {
			rival.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(victim, corev1.SchemeGroupVersion.WithKind("Pod"))}
		},
		"finalizers":          func(rival, _ *corev1.Pod) { rival.Finalizers = []string{v1alpha1.Finalizer} },
		"labels":              func(rival, victim *corev1.Pod) { rival.Labels = victim.Labels },
		"hostname, subdomain": func(rival, _ *corev1.Pod) { rival.Spec.Hostname, rival.Spec.Subdomain = "victim", "web" },
		"status.podIPs": func(rival, victim *corev1.Pod) {
			rival.Status = corev1.PodStatus{PodIP: "10.0.1.9", PodIPs: []corev1.PodIP{{IP: "10.0.1.9"}}}
		},
		"the status altogether": func(rival, victim *corev1.Pod) { rival.Status, rival.Annotations = victim.Status, victim.Annotations },
	} {
		t.Run(name, func(t *testing.T) {
			w := calm(t)
			victim := bound("victim", "red", wanted, "node-1")
			victim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "set", Controller: ptr.To(true)}}
			w.create(victim)
			w.settle()
			before := w.addresses(w.pod("victim"))
			rival := bound("rival", "red", wanted, "node-2")
			alike(rival, w.pod("victim"))
			w.create(rival)
			w.settle()
			now := w.pod("rival")
			forged := clone(now)
			alike(forged, w.pod("victim"))
			w.api.keep(forged, now)
			w.settle()
			if after := w.addresses(w.pod("victim")); len(before) != 2 || !slices.Equal(before, after) {
				t.Errorf("the pod held %v, holds %v", before, after)
			}
			if held := w.addresses(w.pod("rival")); len(held) > 0 || attachedTo(w.pod("rival")) != nil || len(w.host("node-2").sandboxes) > 0 {
				t.Errorf("the rival holds %v, was told %+v, and has %d sandboxes", held, attachedTo(w.pod("rival")), len(w.host("node-2").sandboxes))
			}
		})
	}
}

// TestNodeConditions_Forged_NothingReleased: a kubelet's token writes conditions of its Node, also the
// conditions of Alioth. A node keeps what it may hold until the node is fenced or answers: the
// address of a pod that was deleted by force, and the VNI of a deleted VPC.
func TestNodeConditions_Forged_NothingReleased(t *testing.T) {
	says := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status}
	}
	w := calm(t)
	vni := w.api.objects[keyOf(newVPC("blue", nil))].(*v1alpha1.VPC).Status.VNI
	w.create(bound("lost", "red", `{"ip": "10.0.1.9"}`, "node-2"))
	w.settle()
	h := w.host("node-2")
	h.up = false // its sandboxes may run
	w.api.drop(w.pod("lost"))
	w.mustDelete(newVPC("blue", nil), ranges("blue.net1"), ranges("blue.net2"))
	heir := newVPC("green", nil, "10.0.0.0/16")
	heir.Spec.VNI = &vni
	w.create(bound("next", "red", `{"ip": "10.0.1.9"}`, "node-1"), heir)
	for name, conditions := range map[string][]corev1.NodeCondition{
		"none":                  nil,
		"not ready":             {says(corev1.NodeReady, corev1.ConditionFalse)},
		"unknown":               {says(corev1.NodeReady, corev1.ConditionUnknown)},
		"ready":                 {says(corev1.NodeReady, corev1.ConditionTrue)},
		"no word of Kubernetes": {says(corev1.NodeReady, "Gone")},
		"both":                  {says(corev1.NodeReady, corev1.ConditionTrue), says(corev1.NodeReady, corev1.ConditionFalse)},
		"Alioth's":              {says(v1alpha1.NetworkHealthyCondition, corev1.ConditionTrue)},
	} {
		edit(w, newNode("node-2"), func(node *corev1.Node) { node.Status.Conditions = conditions })
		w.settle()
		if first := attachedTo(w.pod("next")); first != nil {
			t.Fatalf("%s: the address of a pod that may run is given to another: %+v", name, first)
		}
		if got := w.api.objects[keyOf(heir)].(*v1alpha1.VPC).Status.VNI; got != 0 {
			t.Fatalf("%s: the VNI %d that the node may use is given to another VPC", name, got)
		}
	}
	h.up = true
	w.settle()
	if got := w.api.objects[keyOf(heir)].(*v1alpha1.VPC).Status.VNI; got != vni || attachedTo(w.pod("next")) == nil {
		t.Errorf("after the answer of the node the VPC has VNI %d, want %d, and the pod %+v", got, vni, readiness(w.pod("next")))
	}
	w.checkAtRest()
}

// TestTerm_NodeReadinessFlaps_NotDelayedFurther: at the beginning of a term the operator waits for nodes
// that are Ready. A kubelet's token says so and the opposite all the time, and its node does not
// answer. Pods of other nodes wait no longer than for a silent node.
func TestTerm_NodeReadinessFlaps_NotDelayedFurther(t *testing.T) {
	waits := func(fickle bool) time.Duration {
		w := calm(t)
		w.host("node-2").up = false
		w.restart()
		w.create(bound("web", "red", "", "node-1"))
		forged, at := 0, w.clock
		return w.until("the pod to have addresses", func() error {
			if fickle && w.clock.After(at) {
				status := [...]corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue}[forged%2]
				forged, at = forged+1, w.clock
				edit(w, newNode("node-2"), func(node *corev1.Node) {
					node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
				})
			}
			return hasReason(v1alpha1.AttachedReason)(w.pod("web"))
		})
	}
	silent, fickle := waits(false), waits(true)
	if silent == 0 || fickle > silent+time.Second {
		t.Errorf("a pod waits %s for a node that changes its mind, and %s for one that is silent", fickle, silent)
	}
}
