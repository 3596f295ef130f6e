// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// stolen is the node whose daemon's token an attacker has, too. The daemon itself works
// as ever.
const stolen = "node-2"

// abuse is a write with the stolen token, at any moment. It includes Addresses in the
// names of others' pods, beyond the token's rights: safety does not rest on rights alone.
func (c *chaos) abuse() {
	actions := []func(){c.abuseAnswer, c.abuseDelete, c.abuseDelete, c.abuseCreate, c.abuseCreate}
	actions[c.rand.IntN(len(actions))]()
}

// abuseAnswer answers a roll call, this one, another or none, with any VNIs.
func (c *chaos) abuseAnswer() {
	node, ok := c.api.objects[keyOf(nodeObject(stolen))]
	if !ok {
		return
	}
	answer := &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(stolen)}}
	_ = c.api.get(client.ObjectKeyFromObject(answer), answer) // there may be none
	answer.Spec = v1alpha1.RollCallSpec{Call: "never asked"}
	question := &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OperatorRollCall}}
	if c.api.get(client.ObjectKeyFromObject(question), question) == nil && c.rand.IntN(2) == 0 {
		answer.Spec.Call = question.Spec.Call
	}
	for range c.rand.IntN(3) * 100 {
		answer.Spec.VNIs = append(answer.Spec.VNIs, int32(1+c.rand.IntN(300)))
	}
	owner := node.GetUID()
	if c.rand.IntN(4) == 0 {
		owner = "nobody"
	}
	answer.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: stolen, UID: owner}}
	c.note("the thief answers call %q with %d VNIs", answer.Spec.Call, len(answer.Spec.VNIs))
	if answer.UID == "" {
		c.create(answer)
		return
	}
	if err := c.api.update(answer); err != nil {
		c.fail("the thief's answer: %v", err)
	}
}

// abuseDelete deletes an Address of a pod of the node.
func (c *chaos) abuseDelete() {
	var all []*v1alpha1.Address
	for _, address := range sorted[*v1alpha1.Address](c.api) {
		if address.Spec.Node == stolen && address.Spec.Holder.Kind == v1alpha1.HolderPod {
			all = append(all, address)
		}
	}
	if address, ok := pick(c, all); ok {
		c.note("the thief deletes %s", address.Name)
		c.api.drop(address)
	}
}

// abuseCreate makes an Address of the node in the name of a pod of another one, at any
// free IP of any VPC.
func (c *chaos) abuseCreate() {
	var waiting, all []*corev1.Pod
	for _, pod := range sorted[*corev1.Pod](c.api) {
		if pod.Spec.NodeName == stolen {
			continue
		}
		if all = append(all, pod); attachedTo(pod) == nil {
			waiting = append(waiting, pod)
		}
	}
	if len(waiting) > 0 && c.rand.IntN(4) > 0 {
		all = waiting
	}
	pod, ok := pick(c, all)
	if !ok {
		return
	}
	vpc := []string{"red", "red", "blue", v1alpha1.DefaultVPCName}[c.rand.IntN(4)]
	ip := netip.MustParseAddr([]string{"10.0.1.9", fmt.Sprintf("10.0.1.%d", c.rand.IntN(16)), fmt.Sprintf("fd00:0:0:1::%d", c.rand.IntN(9))}[c.rand.IntN(3)])
	address := &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(vpc, ip)},
		Spec: v1alpha1.AddressSpec{
			VPC: vpc, Subnet: vpc + ".net1", IP: ip.String(), MAC: "02:00:00:00:00:66", Node: stolen, Attachment: v1alpha1.PodAttachment,
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
			Set:    []string{ip.String()},
		},
	}
	if _, taken := c.api.objects[keyOf(address)]; !taken {
		c.note("the thief makes %s for pod %s of %s", address.Name, pod.Name, pod.Spec.NodeName)
		c.create(address)
		c.rob(vpc, ip)
	}
}

// rob exempts a pod from keepsToItsOwn if the thief takes an address that a person has deleted: the
// pod gets other addresses then.
func (c *chaos) rob(vpc string, ip netip.Addr) {
	for _, pod := range sorted[*corev1.Pod](c.api) {
		if first := attachedTo(pod); first != nil && first.VPC == vpc && strings.Contains(fmt.Sprint(first.Addresses), ip.String()+"/") {
			if c.robbed == nil {
				c.robbed = map[types.UID]bool{}
			}
			c.robbed[pod.UID] = true
		}
	}
}

// mayBeOff reports whether a sandbox has no guarantees: it is on the node whose token is
// stolen, and the API has its address or VPC for another holder.
func (w *world) mayBeOff(h *host, s *sandbox) bool {
	if !w.thief || h.name != stolen {
		return false
	}
	vpc := &v1alpha1.VPC{}
	if w.api.get(client.ObjectKey{Name: s.attachment.VPC}, vpc) != nil || vpc.Status.VNI != s.vni {
		return true
	}
	for _, ip := range s.ips {
		address := &v1alpha1.Address{}
		err := w.api.get(client.ObjectKey{Name: v1alpha1.AddressName(s.attachment.VPC, ip)}, address)
		if err != nil || types.UID(address.Spec.Holder.UID) != s.uid {
			return true
		}
	}
	return false
}

// keepsToItsOwn checks the effects that a stolen token must never have: the allocation of a pod of
// another node changes, or a pod of any tenant gets into a VPC that was never its tenant's.
func (w *world) keepsToItsOwn() {
	w.t.Helper()
	for _, pod := range sorted[*corev1.Pod](w.api) {
		first := attachedTo(pod)
		if first == nil || podIsEnding(pod) {
			continue
		}
		if first.VPC != "red" && first.VPC != "blue" && first.VPC != v1alpha1.DefaultVPCName {
			w.fail("pod %s was told VPC %s", pod.Name, first.VPC)
		}
		text, before := fmt.Sprint(first.VPC, first.Addresses), w.toldBefore[pod.UID]
		if before == "" && !w.holdsAny(pod.UID) { // the backup is from after the deletion
			before = bereft
			w.remember(pod.UID, bereft)
		}
		if before == bereft {
			if !w.holdsAny(pod.UID) {
				continue
			}
			before = ""
		}
		if before != "" && before != text && pod.Spec.NodeName != stolen && !w.robbed[pod.UID] {
			w.fail("pod %s of %s was told %s, and now %s", pod.Name, pod.Spec.NodeName, before, text)
		}
		w.remember(pod.UID, text)
	}
}

func (w *world) remember(uid types.UID, first string) {
	if w.toldBefore == nil {
		w.toldBefore = map[types.UID]string{}
	}
	w.toldBefore[uid] = first
}

// bereft stands for the allocation of a pod whose Addresses were all deleted by hand.
const bereft = "bereft"

// holdsAny reports whether a pod has an Address, apart from Addresses that the thief makes.
func (w *world) holdsAny(uid types.UID) bool {
	return slices.ContainsFunc(sorted[*v1alpha1.Address](w.api), func(address *v1alpha1.Address) bool {
		return address.Spec.Holder.UID == string(uid) && address.Spec.Node != stolen
	})
}

// forgery is a write of a tenant that may write the status of its pods, and also the annotations,
// which admission would refuse: it names any address of any VPC, or removes the operator's values.
func (c *chaos) forgery() {
	pod, ok := pick(c, slices.DeleteFunc(sorted[*corev1.Pod](c.api), func(pod *corev1.Pod) bool { return pod.Namespace != "shop" }))
	if !ok {
		return
	}
	if c.forged == nil {
		c.forged = map[types.UID]bool{}
	}
	c.forged[pod.UID] = true
	if c.rand.IntN(6) == 0 {
		c.note("a tenant removes the allocation status of %s", pod.Name)
		edit(c.world, pod, func(pod *corev1.Pod) { pod.Annotations, pod.Status.Conditions = nil, nil })
		return
	}
	vpc := []string{victims, victims, victims, "red", "blue", v1alpha1.DefaultVPCName}[c.rand.IntN(6)]
	ips := []string{fmt.Sprintf("10.0.1.%d", c.rand.IntN(16))}
	if c.rand.IntN(2) == 0 {
		ips = append(ips, fmt.Sprintf("fd00:0:0:1::%d", 1+c.rand.IntN(9)))
	}
	c.note("a tenant writes that pod %s has %v of VPC %s", pod.Name, ips, vpc)
	c.forge(pod, vpc, ips...)
}
