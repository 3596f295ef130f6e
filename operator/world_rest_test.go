// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// checkAtRest checks the rules that must hold when nothing is going on and every node is up.
func (w *world) checkAtRest() {
	w.t.Helper()
	held := map[string][]string{} // the names of Addresses by holder UID
	for _, address := range sorted[*v1alpha1.Address](w.api) {
		held[address.Spec.Holder.UID] = append(held[address.Spec.Holder.UID], address.Name)
	}
	alive := map[string]bool{}
	for _, pod := range sorted[*corev1.Pod](w.api) {
		if podIsEnding(pod) {
			continue
		}
		alive[string(pod.UID)] = true
		w.checkPod(pod, held[string(pod.UID)])
	}
	for _, service := range sorted[*corev1.Service](w.api) {
		alive[string(service.UID)] = true
		w.checkService(service, held[string(service.UID)])
	}
	for _, node := range sorted[*corev1.Node](w.api) {
		alive[string(node.UID)] = true
		if names := held[string(node.UID)]; !node.Spec.Unschedulable && len(names) != 2 {
			w.fail("node %s holds %v, want an address per family", node.Name, names)
		}
	}
	for _, address := range sorted[*v1alpha1.ExternalAddress](w.api) {
		if !alive[address.Spec.Service.UID] {
			w.fail("%s is leaked: nobody has the UID %s", address.Name, address.Spec.Service.UID)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(held)) {
		if !alive[uid] {
			w.fail("%v are leaked: nobody has the UID %s", held[uid], uid)
		}
	}
	w.checkVNIs()
	w.checkNothingIsStuck()
}

func (w *world) checkPod(pod *corev1.Pod, held []string) {
	w.t.Helper()
	attachment := attachedTo(pod)
	var want []string
	if attachment != nil {
		for _, prefix := range attachment.Addresses {
			want = append(want, v1alpha1.AddressName(attachment.VPC, prefix.Addr()))
		}
	}
	slices.Sort(want)
	if !slices.Equal(want, held) {
		w.fail("pod %s was told %v and holds %v", pod.Name, want, held)
	}
	w.checkPlace(pod, held)
	for _, h := range w.hosts {
		for _, s := range h.sandboxes {
			if s.uid == pod.UID && (attachment == nil || !reflect.DeepEqual(s.attachment.Addresses, attachment.Addresses)) && !h.lost(s) {
				w.fail("sandbox %s has %v, its pod was told %v", s.id, s.ips, want)
			}
		}
	}
	if condition := readiness(pod); pod.Spec.NodeName != "" && attachment == nil && condition == nil {
		w.fail("pod %s is stuck: it was neither told its addresses nor why it has none", pod.Name)
	}
}

// checkPlace requires that a pod holds its addresses where it is, and runs with them.
func (w *world) checkPlace(pod *corev1.Pod, held []string) {
	w.t.Helper()
	for _, address := range sorted[*v1alpha1.Address](w.api) {
		if slices.Contains(held, address.Name) && address.Spec.Node != pod.Spec.NodeName {
			w.fail("pod %s of %s holds %s on %s", pod.Name, pod.Spec.NodeName, address.Name, address.Spec.Node)
		}
	}
	h := w.host(pod.Spec.NodeName)
	attached := h != nil && slices.ContainsFunc(h.sandboxes, func(s *sandbox) bool { return s.uid == pod.UID })
	if h != nil && h.up && len(held) > 0 && !attached {
		w.fail("pod %s was told its addresses and has no sandbox", pod.Name)
	}
}

// checkService compares the addresses that a Service shows with the addresses that it holds, which
// it asks for.
func (w *world) checkService(service *corev1.Service, held []string) {
	w.t.Helper()
	where := service.Annotations[v1alpha1.LoadBalancerAnnotation]
	asks := service.Spec.Type == corev1.ServiceTypeLoadBalancer
	if len(held) > 0 && (!asks || where != "") {
		w.fail("Service %s holds %v and does not ask for it", service.Name, held)
	}
	for _, address := range sorted[*v1alpha1.ExternalAddress](w.api) {
		if address.Spec.Service.UID != string(service.UID) {
			continue
		}
		if !asks || where != v1alpha1.LoadBalancerExternal || address.Status.Node == "" {
			w.fail("Service %s holds %s, announced by %q", service.Name, address.Name, address.Status.Node)
		}
		held = append(held, "outside."+address.Name)
	}
	var shown []string
	for _, name := range held {
		_, ip, _ := strings.Cut(name, ".")
		shown = append(shown, ip)
	}
	if err := shows(shown...)(service); err != nil {
		w.fail("it holds %v: %v", held, err)
	}
}

func readiness(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1alpha1.NetworkReadyCondition {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func (w *world) checkVNIs() {
	w.t.Helper()
	vpcs := map[string]*v1alpha1.VPC{}
	for _, vpc := range sorted[*v1alpha1.VPC](w.api) {
		vpcs[string(vpc.UID)] = vpc
	}
	claimed := map[string]bool{}
	for _, claim := range sorted[*v1alpha1.VNIClaim](w.api) {
		vpc := vpcs[claim.Spec.VPCUID]
		if vpc == nil || claimed[claim.Spec.VPCUID] || vpc.Status.VNI != claim.Spec.VNI {
			w.fail("%s is leaked: it is of VPC %s", claim.Name, claim.Spec.VPC)
		}
		claimed[claim.Spec.VPCUID] = true
	}
	for uid, vpc := range vpcs {
		if !claimed[uid] && meta.IsStatusConditionTrue(vpc.Status.Conditions, v1alpha1.ReadyCondition) {
			w.fail("VPC %s is Ready without a claim", vpc.Name)
		}
	}
}

// checkNothingIsStuck starts an operator without any state: it must leave all objects as
// they were. Meanwhile a message about the progress of the roll call may change.
func (w *world) checkNothingIsStuck() {
	w.t.Helper()
	for _, o := range slices.Clone(w.operators) {
		w.crash(o)
	}
	before := w.decided()
	w.operate()
	w.settle()
	if d := cmp.Diff(before, w.decided()); d != "" {
		w.fail("an operator that sees everything afresh changes what was stuck (-before +after):\n%s", d)
	}
}

// decided returns all objects but roll calls, without their versions.
func (w *world) decided() map[apiKey]client.Object {
	all := map[apiKey]client.Object{}
	for key, object := range w.api.objects {
		if _, call := object.(*v1alpha1.RollCall); !call {
			all[key] = clone(object)
			all[key].SetResourceVersion("")
		}
	}
	return all
}
