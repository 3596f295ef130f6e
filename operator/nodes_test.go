// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// holds waits until a holder has that many addresses in a VPC.
func (r *rig) holds(uid, vpc string, count int) []v1alpha1.Address {
	r.t.Helper()
	var mine []v1alpha1.Address
	r.eventually(func() error {
		mine = nil
		for _, address := range r.held(uid) {
			if address.Spec.VPC == vpc {
				mine = append(mine, address)
			}
		}
		if len(mine) != count {
			return fmt.Errorf("%s holds %d addresses of VPC %s, want %d", uid, len(mine), vpc, count)
		}
		return nil
	})
	return mine
}

func TestDefaultVPC_EachNode_HasAddresses(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.DefaultVPC = "nodes-default"
	r.operate(cfg)
	early := newNode("nodes-early")
	r.create(early)
	r.create(newVPC("nodes-default", []string{"*"}, "10.244.0.0/16", "fd10:244::/48"),
		newSubnet("nodes-default", "nodes-default", "", "10.244.0.0/16", "fd10:244::/64"))
	late := newNode("nodes-late")
	r.create(late)
	for _, node := range []*corev1.Node{early, late} {
		for _, address := range r.holds(string(node.UID), "nodes-default", 2) {
			holder := address.Spec.Holder
			if holder.Kind != v1alpha1.HolderNode || holder.Name != node.Name || address.Spec.Node != node.Name ||
				address.Spec.Attachment != v1alpha1.NodeAttachment {
				t.Errorf("%s is %+v", address.Name, address.Spec)
			}
		}
	}

	r.create(newNamespace("nodes-plain", ""))
	pod := r.schedule(newPod("nodes-plain", "p", "", ""), "node-1")
	sees(r, pod, hasReason(v1alpha1.AttachedReason))
	r.holds(string(pod.UID), "nodes-default", 2)

	r.delete(early)
	r.holds(string(early.UID), "nodes-default", 0)
	r.delete(late)
	again := newNode("nodes-late")
	r.create(again)
	r.holds(string(again.UID), "nodes-default", 2)
	r.holds(string(late.UID), "nodes-default", 0)
}

func TestDefaultVPC_ContainsNode_Refused(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.DefaultVPC = "around-default"
	r.operate(cfg)
	vpc := newVPC("around-default", []string{"*"}, "192.168.0.0/16")
	r.create(vpc)
	sees(r, vpc, vpcReady(v1alpha1.ReadyReason))
	node := newNode("around-node")
	r.create(node)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.77.1"}}
	if err := r.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	sees(r, vpc, vpcReady(v1alpha1.RangeReservedReason))
	r.delete(node)
	sees(r, vpc, vpcReady(v1alpha1.ReadyReason))
}

// TestAddresses_NodeWithoutDaemon_Released: another network attaches the pods there. Once a
// daemon has run on the node, its answer has to be deleted first.
func TestAddresses_NodeWithoutDaemon_Released(t *testing.T) {
	r := start(t)
	r.network("bare")
	r.create(newNode("bare-node"))
	pod := r.schedule(newPod("bare", "first", "n", `{"ip": "10.10.1.40"}`), "bare-node")
	sees(r, pod, hasReason(v1alpha1.AttachedReason))
	r.delete(pod)
	r.holds(string(pod.UID), "bare", 0)

	answer := newAnswer("bare-node")
	r.create(answer)
	pod = r.schedule(newPod("bare", "second", "n", `{"ip": "10.10.1.40"}`), "bare-node")
	sees(r, pod, hasReason(v1alpha1.AttachedReason))
	r.delete(pod)
	successor := r.schedule(newPod("bare", "third", "n", `{"ip": "10.10.1.40"}`), "node-1")
	sees(r, successor, hasReason(v1alpha1.IPReleasingReason))
	r.delete(answer)
	sees(r, successor, hasReason(v1alpha1.AttachedReason))
	r.holds(string(pod.UID), "bare", 0)
}

func TestAddresses_NodeLost_ReleasedOnlyWhenFenced(t *testing.T) {
	r := start(t)
	r.network("fence")
	for _, tc := range []struct {
		name  string
		fence func(r *rig, node *corev1.Node)
	}{
		{"the Node object is deleted", func(r *rig, node *corev1.Node) { r.delete(node) }},
		{"the node is out of service", func(r *rig, node *corev1.Node) {
			patch := client.MergeFrom(node.DeepCopy())
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
			if err := r.Patch(r.t.Context(), node, patch); err != nil {
				r.t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := r.within(t)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "fence-"}}
			r.create(node)
			r.create(newAnswer(node.Name))
			pod := r.schedule(newPod("fence", "lost-"+node.Name, "n", `{"ip": "10.10.1.40"}`), node.Name)
			sees(r, pod, hasReason(v1alpha1.AttachedReason))
			r.delete(pod) // by force, as when the node does not answer
			successor := r.schedule(newPod("fence", "next-"+node.Name, "n", `{"ip": "10.10.1.40"}`), "node-1")
			sees(r, successor, hasReason(v1alpha1.IPReleasingReason))
			r.holds(string(pod.UID), "fence", 2)
			tc.fence(r, node)
			sees(r, successor, hasReason(v1alpha1.AttachedReason))
			r.holds(string(pod.UID), "fence", 0)
			r.delete(successor)
			for _, address := range r.held(string(successor.UID)) {
				r.delete(&address)
			}
		})
	}
}
