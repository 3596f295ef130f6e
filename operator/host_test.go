// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// host is a machine with a kubelet and a daemon, as far as claims are concerned: their actions, in
// the words of design record 010, without packets.
type host struct {
	name      string
	up        bool
	inputs    *informers
	client    *apiClient
	sandboxes []*sandbox
	made      int
}

// sandbox is one attachment of one container, as the journal has it.
type sandbox struct {
	id           string
	pod          types.NamespacedName
	uid          types.UID
	attachment   netif.Interface
	vni          int32
	ips          []netip.Addr
	wantsRestart bool
}

func newHost(name string, api *fakeAPI, hook func(verb string, object client.Object, effect func() error) error) *host {
	h := &host{name: name, up: true, inputs: newInformers(api), client: &apiClient{api: api, hook: hook}}
	h.inputs.listAll()
	return h
}

func podIsEnding(pod *corev1.Pod) bool {
	return pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded
}

func (h *host) podOf(uid types.UID) *corev1.Pod {
	for _, pod := range view[*corev1.Pod](h.inputs) {
		if pod.UID == uid {
			return pod
		}
	}
	return nil
}

func (h *host) addressOf(vpc string, ip netip.Addr) *v1alpha1.Address {
	found, _ := h.inputs.cached(keyOf(&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(vpc, ip)}})).(*v1alpha1.Address)
	return found
}

func (h *host) vniOf(vpc string) int32 {
	if found, ok := h.inputs.cached(keyOf(&v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: vpc}})).(*v1alpha1.VPC); ok {
		return found.Status.VNI
	}
	return 0
}

// lost reports whether no packet passes: the API has one of a sandbox's addresses for another
// holder, or no longer for the pod, or has another VNI of its VPC.
func (h *host) lost(s *sandbox) bool {
	if h.vniOf(s.attachment.VPC) != s.vni {
		return true
	}
	return slices.ContainsFunc(s.ips, func(ip netip.Addr) bool {
		address := h.addressOf(s.attachment.VPC, ip)
		if address == nil {
			return !h.keptFor(s)
		}
		return address.Spec.Holder.UID != string(s.uid)
	})
}

// keptFor reports whether the operator keeps a sandbox's addresses for its pod.
func (h *host) keptFor(s *sandbox) bool {
	pod := h.podOf(s.uid)
	if podIsEnding(pod) {
		return false
	}
	first := attachedTo(pod)
	return first != nil && first.VPC == s.attachment.VPC && reflect.DeepEqual(first.Addresses, s.attachment.Addresses)
}

// choices lists the actions that kubelet and daemon can take now.
func (h *host) choices() []work {
	if !h.up {
		return nil
	}
	var all []work
	for _, i := range h.inputs.all {
		if i.behind() {
			all = append(all, work{fmt.Sprintf("%s hears of %s", h.name, i.kind), i.hear})
		}
	}
	for _, pod := range view[*corev1.Pod](h.inputs) {
		if pod.Spec.NodeName == h.name {
			all = append(all, h.podChoices(pod)...)
		}
	}
	for _, s := range h.sandboxes {
		pod := h.podOf(s.uid)
		if podIsEnding(pod) || s.wantsRestart {
			all = append(all, work{fmt.Sprintf("%s DEL %s", h.name, s.id), func() { h.del(s) }})
		}
	}
	for _, address := range h.releasable() {
		all = append(all, work{fmt.Sprintf("%s releases %s", h.name, address.Name), func() { h.release(address) }})
	}
	if h.asked() {
		all = append(all, work{h.name + " answers", h.answer})
	}
	return all
}

func (h *host) news() *informers { return h.inputs }

func (h *host) podChoices(pod *corev1.Pod) []work {
	attached := slices.ContainsFunc(h.sandboxes, func(s *sandbox) bool { return s.uid == pod.UID })
	switch {
	case podIsEnding(pod) && pod.DeletionTimestamp != nil && !attached:
		return []work{{fmt.Sprintf("%s lets pod %s go", h.name, pod.Name), func() { h.letGo(pod) }}}
	case !podIsEnding(pod) && !attached:
		if s := h.decide(pod); s != nil {
			return []work{{fmt.Sprintf("%s ADD %s", h.name, pod.Name), func() { h.add(s) }}}
		}
	}
	return nil
}

// decide checks the conditions that ADD waits for: readiness and the complete set of Addresses.
func (h *host) decide(pod *corev1.Pod) *sandbox {
	if pod.Annotations[arktosv1.ReadinessAnnotation] != "true" {
		return nil
	}
	list, err := annotations.ParseAttachments(pod.Annotations[v1alpha1.AttachmentsAnnotation])
	if err != nil || len(list) != 1 || h.vniOf(list[0].VPC) == 0 {
		return nil
	}
	s := &sandbox{pod: client.ObjectKeyFromObject(pod), uid: pod.UID, attachment: list[0], vni: h.vniOf(list[0].VPC)}
	for _, prefix := range list[0].Addresses {
		address := h.addressOf(list[0].VPC, prefix.Addr())
		if address == nil || address.Spec.Node != h.name || address.Spec.Holder.UID != string(pod.UID) || len(address.Spec.Set) != len(list[0].Addresses) {
			return nil
		}
		s.ips = append(s.ips, prefix.Addr())
	}
	return s
}

func (h *host) add(s *sandbox) {
	h.made++
	s.id = fmt.Sprintf("%s/%s/%d", h.name, s.pod.Name, h.made)
	h.sandboxes = append(h.sandboxes, s)
}

func (h *host) del(s *sandbox) {
	h.sandboxes = slices.DeleteFunc(h.sandboxes, func(other *sandbox) bool { return other == s })
}

// letGo is the kubelet's last request for a pod.
func (h *host) letGo(pod *corev1.Pod) {
	_ = h.client.Delete(context.Background(), clone(pod), client.Preconditions{UID: &pod.UID}) // tried again while it is there
}

// releasable are this node's Addresses whose pod has no sandbox here and is on
// its way out.
func (h *host) releasable() []*v1alpha1.Address {
	var all []*v1alpha1.Address
	for _, address := range view[*v1alpha1.Address](h.inputs) {
		holder := address.Spec.Holder
		attached := slices.ContainsFunc(h.sandboxes, func(s *sandbox) bool { return string(s.uid) == holder.UID })
		if address.Spec.Node == h.name && holder.Kind == v1alpha1.HolderPod && !attached && podIsEnding(h.podOf(types.UID(holder.UID))) {
			all = append(all, address)
		}
	}
	return all
}

// release asks the API before it deletes, as the daemon does.
func (h *host) release(address *v1alpha1.Address) {
	holder, pod := address.Spec.Holder, &corev1.Pod{}
	err := h.client.Get(context.Background(), client.ObjectKey{Namespace: holder.Namespace, Name: holder.Name}, pod)
	if client.IgnoreNotFound(err) != nil || err == nil && string(pod.UID) == holder.UID && !podIsEnding(pod) {
		return
	}
	_ = h.client.Delete(context.Background(), clone(address), client.Preconditions{UID: &address.UID}) // tried again while it is there
}

func (h *host) rollCall(name string) *v1alpha1.RollCall {
	found, _ := h.inputs.cached(keyOf(&v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: name}})).(*v1alpha1.RollCall)
	return found
}

func (h *host) vnis() []int32 {
	var all []int32
	for _, s := range h.sandboxes {
		all = append(all, s.vni)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (h *host) asked() bool {
	node := h.inputs.cached(keyOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name}}))
	if node == nil {
		return false
	}
	question, answer := h.rollCall(v1alpha1.OperatorRollCall), h.rollCall(v1alpha1.NodeRollCall(h.name))
	if answer == nil || len(answer.OwnerReferences) == 0 || answer.OwnerReferences[0].UID != node.GetUID() {
		return true
	}
	return question != nil && question.Spec.Call != answer.Spec.Call || !slices.Equal(answer.Spec.VNIs, h.vnis())
}

// answer reads from the API itself, cuts off the interfaces whose addresses it lacks, and
// answers the roll call.
func (h *host) answer() {
	question := v1alpha1.NoCall
	if asked := h.rollCall(v1alpha1.OperatorRollCall); asked != nil {
		question = asked.Spec.Call
	}
	if h.client.hook("list", &v1alpha1.Address{}, func() error { h.inputs.listAll(); return nil }) != nil {
		return
	}
	node := h.inputs.cached(keyOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name}}))
	if node == nil {
		return
	}
	object := &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(h.name)}}
	err := h.client.Get(context.Background(), client.ObjectKeyFromObject(object), object)
	object.Spec = v1alpha1.RollCallSpec{Call: question, VNIs: h.vnis()}
	object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: h.name, UID: node.GetUID()}}
	if apierrors.IsNotFound(err) {
		_ = h.client.Create(context.Background(), object) // tried again while it differs
	} else if err == nil {
		_ = h.client.Update(context.Background(), object)
	}
}
