// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// victims is a VPC that allows only the tenant bank. Its subnet has 13 addresses for pods.
const victims = "vault"

// addVictim makes that VPC, and the tenant with a Network.
func (w *world) addVictim() {
	w.create(newNamespace("bank", "bank"), newVPC(victims, []string{"bank"}, "10.0.0.0/16", "fd00::/48"),
		ranges(victims+".net1", "10.0.1.0/28", "fd00:0:0:1::/64"), newNetwork("bank", victims, victims))
}

// teller returns a pod of the tenant bank on a node.
func teller(name, nic, node string) *corev1.Pod {
	pod := newPod("bank", name, victims, nic)
	pod.Spec.NodeName = node
	return pod
}

// forge writes an allocation status as a writer of pods/status can: the annotation and the
// condition, with addresses of a VPC.
func (w *world) forge(pod *corev1.Pod, vpc string, ips ...string) {
	w.t.Helper()
	one := netif.Interface{Name: "eth0", Kind: netif.KindPair, VPC: vpc, Subnet: vpc + ".net1", MAC: "02:00:00:00:00:66"}
	for _, text := range ips {
		ip := netip.MustParseAddr(text)
		one.Addresses = append(one.Addresses, netip.PrefixFrom(ip, ip.BitLen()-4))
		one.Gateways = append(one.Gateways, netip.MustParseAddr("10.0.1.1"))
	}
	text, err := annotations.FormatAttachments([]netif.Interface{one})
	if err != nil {
		w.t.Fatal(err)
	}
	edit(w, pod, func(pod *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AttachmentsAnnotation, text)
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, arktosv1.ReadinessAnnotation, "true")
		pod.Status.Conditions = append(slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == v1alpha1.NetworkReadyCondition
		}), corev1.PodCondition{Type: v1alpha1.NetworkReadyCondition, Status: corev1.ConditionTrue, Reason: v1alpha1.AttachedReason})
		pod.Status.PodIPs = nil
		for _, ip := range ips {
			pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
		}
	})
}

// keepsOthersOut checks that no pod holds an address in a VPC that never allowed its tenant.
func (w *world) keepsOthersOut() {
	w.t.Helper()
	for _, address := range sorted[*v1alpha1.Address](w.api) {
		holder := address.Spec.Holder
		if address.Spec.VPC == victims && holder.Kind == v1alpha1.HolderPod && holder.Namespace != "bank" {
			w.fail("pod %s/%s holds %s", holder.Namespace, holder.Name, address.Name)
		}
	}
}

// restart ends all operators, and starts an operator that knows nothing but the API.
func (w *world) restart() {
	for _, o := range slices.Clone(w.operators) {
		w.crash(o)
	}
	w.operate()
}

// TestAllocationStatus_Forged_GivesNothing: a pod behind a scheduling gate gets an allocation
// status by hand, before or without a restart of the operator.
func TestAllocationStatus_Forged_GivesNothing(t *testing.T) {
	for _, network := range []string{"red", "none"} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("Network %s, restart %v", network, restarts), func(t *testing.T) {
				w := calm(t)
				w.addVictim()
				w.create(bound("gated", network, "", ""))
				w.settle()
				w.forge(w.pod("gated"), victims, "10.0.1.9", "fd00:0:0:1::9")
				if restarts {
					w.crash(w.operators[0])
				}
				edit(w, w.pod("gated"), func(pod *corev1.Pod) { pod.Spec.NodeName = "node-1" })
				if restarts {
					w.operate()
				}
				w.settle()
				w.keepsOthersOut()
				first := attachedTo(w.pod("gated"))
				if network == "red" && (first == nil || first.VPC != "red") || network == "none" && first != nil {
					t.Errorf("the pod has the allocation status %+v", first)
				}
				if n := w.operators[0].events["gated "+v1alpha1.AllocationReplacedReason]; n != 1 {
					t.Errorf("%d events tell of the replacement, want one", n)
				}
				w.checkAtRest()
			})
		}
	}
}

// TestAllocationStatus_NamesWholeSubnet_OthersKeepAddresses: pods name every address of a subnet that their
// tenant may not use, before its owner does.
func TestAllocationStatus_NamesWholeSubnet_OthersKeepAddresses(t *testing.T) {
	w := calm(t)
	w.addVictim()
	w.settle()
	w.crash(w.operators[0])
	for i := 2; i < 15; i++ {
		pod := bound(fmt.Sprintf("squat-%d", i), "none", "", "node-2")
		w.create(pod)
		w.forge(pod, victims, fmt.Sprintf("10.0.1.%d", i))
	}
	w.operate()
	for i := range 9 {
		w.create(teller(fmt.Sprintf("teller-%d", i), "", "node-1"))
	}
	w.create(teller("fixed", `{"ip": "10.0.1.9"}`, "node-1"))
	w.settle()
	w.keepsOthersOut()
	for _, pod := range sorted[*corev1.Pod](w.api) {
		if first := attachedTo(pod); (first != nil) != (pod.Namespace == "bank") {
			t.Errorf("pod %s/%s has the allocation status %+v", pod.Namespace, pod.Name, first)
		}
	}
	w.checkAtRest()
}

// TestAllocationStatus_ForgedOnAttachedPod_WrittenAgain: the pod keeps its addresses.
func TestAllocationStatus_ForgedOnAttachedPod_WrittenAgain(t *testing.T) {
	for name, forge := range map[string]func(w *world){
		"another VPC":        func(w *world) { w.forge(w.pod("web"), victims, "10.0.1.9") },
		"another address":    func(w *world) { w.forge(w.pod("web"), "red", "10.0.1.12") },
		"a part of it":       func(w *world) { w.forge(w.pod("web"), "red", "10.0.1.7") },
		"another's address":  func(w *world) { w.forge(w.pod("web"), "red", "10.0.1.8") },
		"another of its own": func(w *world) { w.forge(w.pod("web"), "blue", "10.0.1.7") },
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", name, restarts), func(t *testing.T) {
				w := calm(t)
				w.addVictim()
				w.create(bound("web", "red", `{"ip": "10.0.1.7"}`, "node-1"), bound("other", "red", `{"ip": "10.0.1.8"}`, "node-2"))
				w.settle()
				before, held := attachedTo(w.pod("web")), w.addresses(w.pod("web"))
				forge(w)
				if restarts {
					w.restart()
				}
				w.settle()
				w.keepsOthersOut()
				after := attachedTo(w.pod("web"))
				if after == nil || after.VPC != before.VPC || !slices.Equal(after.Addresses, before.Addresses) || !slices.Equal(w.addresses(w.pod("web")), held) {
					t.Errorf("the pod had %+v, has %+v and holds %v", before, after, w.addresses(w.pod("web")))
				}
				w.checkAtRest()
			})
		}
	}
}

func TestLostAddress_OperatorRestarts_ReturnsIfAllowed(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(w *world)
		back      bool
	}{
		"nothing has changed": {func(*world) {}, true},
		"a rival wants it":    {func(w *world) { w.create(bound("rival", "red", `{"ip": "10.0.1.9"}`, "node-2")) }, true},
		"the VPC excludes the tenant": {func(w *world) {
			edit(w, newVPC("red", nil), func(v *v1alpha1.VPC) { v.Spec.AllowedTenants = []string{"bank"} })
		}, false},
		"the namespace changed its owner": {func(w *world) {
			edit(w, newNamespace("shop", ""), func(ns *corev1.Namespace) { ns.Labels = map[string]string{v1alpha1.TenantLabel: "other"} })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := calm(t)
			w.create(bound("web", "red", `{"ip": "10.0.1.9"}`, "node-1"))
			w.settle()
			before := w.addresses(w.pod("web"))
			w.crash(w.operators[0])
			for _, name := range before {
				w.api.drop(&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			tc.meanwhile(w)
			w.operate()
			w.settle()
			if after := w.addresses(w.pod("web")); tc.back && !slices.Equal(after, before) || !tc.back && len(after) > 0 {
				t.Errorf("the pod held %v, holds %v", before, after)
			}
			w.checkAtRest()
		})
	}
}

// TestAddress_PodDecidedAnew_NoOtherGetsIt: its Network leads elsewhere
// since, and its node learns of the change last.
func TestAddress_PodDecidedAnew_NoOtherGetsIt(t *testing.T) {
	w := calm(t)
	w.create(bound("web", "red", `{"ip": "10.0.1.9"}`, "node-1"), newNetwork("shop", "second", "red"))
	w.settle()
	w.crash(w.operators[0])
	for _, name := range w.addresses(w.pod("web")) {
		w.api.drop(&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	edit(w, newNetwork("shop", "red", ""), func(net *arktosv1.Network) { net.Spec.VPCID = "blue" })
	w.create(bound("rival", "second", `{"ip": "10.0.1.9"}`, "node-2"))
	w.operate()
	w.settle()
	if first := attachedTo(w.pod("web")); first == nil || first.VPC != "blue" {
		t.Errorf("the pod has %+v, want an address of the VPC that its Network names", first)
	}
	if reason := readiness(w.pod("rival")).Reason; reason != v1alpha1.IPInUseReason {
		t.Errorf("the rival has reason %s", reason)
	}
	w.mustDelete(w.pod("web"))
	w.settle()
	if first := attachedTo(w.pod("rival")); first == nil || !strings.HasPrefix(first.Addresses[0].String(), "10.0.1.9/") {
		t.Errorf("the rival has %+v after the pod has ended", first)
	}
	w.checkAtRest()
}

// TestOperator_RestartWithDecidedPods_NothingWritten: a change of their Network or VPC makes no
// difference.
func TestOperator_RestartWithDecidedPods_NothingWritten(t *testing.T) {
	w := calm(t)
	for i := range 6 {
		w.create(bound(fmt.Sprintf("web-%d", i), []string{"red", "blue", ""}[i%3], "", fmt.Sprintf("node-%d", 1+i%2)))
	}
	w.settle()
	edit(w, newNetwork("shop", "red", ""), func(net *arktosv1.Network) { net.Spec.VPCID = "blue" })
	edit(w, newVPC("blue", nil), func(v *v1alpha1.VPC) { v.Spec.AllowedTenants = []string{"bank"} })
	w.settle()
	var writes []string
	w.intercept = func(_ string, _ *instance, verb string, object client.Object, effect func() error) error {
		switch object.(type) {
		case *corev1.Pod, *v1alpha1.Address, *v1alpha1.AttachmentClaim:
			if isWrite(verb) {
				writes = append(writes, verb+" "+object.GetName())
			}
		}
		return effect()
	}
	w.restart()
	w.settle()
	if len(writes) > 0 {
		t.Errorf("it writes %v", writes)
	}
}
