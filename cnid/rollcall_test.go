// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// address returns the Address object of a pod, or nil.
func (n *apiNode) address(p *labPod) (*v1alpha1.Address, error) {
	var address v1alpha1.Address
	err := n.api.Get(context.Background(), client.ObjectKey{Name: v1alpha1.AddressName(p.vpc, p.ip(ipfamily.IPv4))}, &address)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &address, err
}

func (n *apiNode) deleteAddress(t *testing.T, p *labPod) {
	t.Helper()
	address := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(p.vpc, p.ip(ipfamily.IPv4))}}
	if err := n.api.Delete(t.Context(), address); err != nil {
		t.Fatal(err)
	}
}

// call asks all nodes, as the operator does.
func (n *apiNode) call(t *testing.T, text string) {
	t.Helper()
	object := &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OperatorRollCall}, Spec: v1alpha1.RollCallSpec{Call: text}}
	n.create(t, object)
	if err := n.api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	object.Spec.Call = text
	if err := n.api.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// answered returns a function that returns nil when the node has answered a call, with this VNI or
// without.
func (n *apiNode) answered(call string, vni int32, has bool) func() error {
	return func() error {
		var object v1alpha1.RollCall
		if err := n.api.Get(context.Background(), client.ObjectKey{Name: v1alpha1.NodeRollCall(n.name)}, &object); err != nil {
			return err
		}
		if object.Spec.Call != call || slices.Contains(object.Spec.VNIs, vni) != has || len(object.OwnerReferences) != 1 {
			return fmt.Errorf("it said %+v, owner %v", object.Spec, object.OwnerReferences)
		}
		return nil
	}
}

// pair attaches two pods of a VPC. It returns the second, and a check of whether the
// first reaches it.
func (n *apiNode) pair(t *testing.T, vpc string) (b *labPod, reach func() error) {
	t.Helper()
	a, b := n.pod(t, vpc+"-a", vpc, "10.10.1.10", nil), n.pod(t, vpc+"-b", vpc, "10.10.1.11", nil)
	for _, p := range []*labPod{a, b} {
		n.decide(t, p)
		if err := n.lab.cni(t, "ADD", p); err != nil {
			t.Fatal(err)
		}
	}
	b.serve(t)
	reach = func() error {
		conn, got, err := dialFrom(t, a.NetNS, b.ip(ipfamily.IPv4))
		if conn != nil {
			conn.Close()
		}
		if err == nil && got != b.name {
			err = fmt.Errorf("answered by %q", got)
		}
		return err
	}
	if err := reach(); err != nil {
		t.Fatal(err)
	}
	return b, reach
}

// TestRollCall_AddressObjectMissing_RunningPodKept: the operator keeps it for the
// pod and makes the object again, which the daemon has no right to.
func TestRollCall_AddressObjectMissing_RunningPodKept(t *testing.T) {
	n := newAPINode(t, "api-missing")
	n.vpc(t, "missing", 51)
	n.start(t)
	b, reach := n.pair(t, "missing")
	n.deleteAddress(t, b)
	n.call(t, "missing")
	eventually(t, "it has read that the Address is gone", n.answered("missing", 51, true))
	if err := reach(); err != nil {
		t.Errorf("the pod is not reached: %v", err)
	}
	if address, err := n.address(b); err != nil || address != nil {
		t.Errorf("somebody made the Address: %v, %v", address, err)
	}
	n.decide(t, b) // as the operator makes it again
	n.deletePod(t, b)
	if err := n.lab.cni(t, "DEL", b); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Address is deleted", func() error { return n.addressGone(b) })
}

// TestRollCall_ForgottenAddressInUse_ReplyWaits: after the answer the
// operator may give such an address to another pod.
func TestRollCall_ForgottenAddressInUse_ReplyWaits(t *testing.T) {
	n := newAPINode(t, "api-answers")
	n.vpc(t, "answers", 52)
	n.start(t)
	eventually(t, "it answers without a call", n.answered(v1alpha1.NoCall, 52, false))
	b, reach := n.pair(t, "answers")
	n.call(t, "first")
	eventually(t, "it answers the first call", n.answered("first", 52, true))

	// A restored backup: pod and Address are gone, and the daemon sees it late.
	n.link.cut()
	n.deleteAddress(t, b)
	n.deletePod(t, b)
	n.call(t, "second")
	n.link.restore()
	eventually(t, "it answers the second call", n.answered("second", 52, true))
	if err := reach(); err == nil {
		t.Error("the call is answered, and the pod that the API does not know is reached")
	}
	if err := n.lab.cni(t, "DEL", b); err != nil {
		t.Fatal(err)
	}
}

// TestRollCall_DaemonTracesLost_WrittenAgain: without them the operator releases addresses as on a
// node without a daemon.
func TestRollCall_DaemonTracesLost_WrittenAgain(t *testing.T) {
	n := newAPINode(t, "api-traces")
	n.cfg.ReviewEvery = 100 * time.Millisecond
	n.start(t)
	there := func() error { return errors.Join(n.answered(v1alpha1.NoCall, 0, false)(), n.conditions()) }
	eventually(t, "it has written its answer and its conditions", there)
	if err := n.api.Delete(t.Context(), &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(n.name)}}); err != nil {
		t.Fatal(err)
	}
	n.status(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}, func(obj client.Object) {
		obj.(*corev1.Node).Status.Conditions = nil
	})
	eventually(t, "it has written them again", there)
}

// TestAttach_DaemonConditionMissing_Waits: if such a pod ended, the operator would
// release its address while the interface exists.
func TestAttach_DaemonConditionMissing_Waits(t *testing.T) {
	n := newAPINode(t, "api-unannounced")
	n.cfg.Wait = 100 * time.Millisecond
	n.vpc(t, "unannounced", 54)
	allow := n.refuseConditions(t)
	n.start(t)
	p := n.pod(t, "unannounced-a", "unannounced", "10.10.1.10", nil)
	n.decide(t, p)
	const reason = "does not have the conditions of its daemon yet"
	eventually(t, "the pod waits for nothing but the condition", func() error {
		err := n.lab.cni(t, "ADD", p)
		if err == nil {
			t.Fatal("the pod is attached, and the API does not know of the daemon")
		}
		if strings.Contains(err.Error(), reason) {
			return nil
		}
		return err
	})
	if err := n.lab.cni(t, "DEL", p); err != nil {
		t.Errorf("DEL waits, too: %v", err)
	}
	allow()
	eventually(t, "the pod is attached", func() error { return n.lab.cni(t, "ADD", p) })
	if err := n.lab.cni(t, "DEL", p); err != nil {
		t.Fatal(err)
	}
}

// refuseConditions makes the API server refuse conditions of the node's object, and returns the
// function that ends this.
func (n *apiNode) refuseConditions(t *testing.T) (allow func()) {
	t.Helper()
	object := func(kind string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": "refuse-" + n.name}, "spec": spec,
		}}
	}
	binding := object("ValidatingAdmissionPolicyBinding", map[string]any{"policyName": "refuse-" + n.name, "validationActions": []any{"Deny"}})
	n.create(t, object("ValidatingAdmissionPolicy", map[string]any{
		"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
			"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"UPDATE"},
			"resources": []any{"nodes/status"}, "resourceNames": []any{n.name},
		}}},
		"validations": []any{map[string]any{"expression": "false", "message": "refused by a test"}},
	}))
	n.create(t, binding)
	node := &corev1.Node{}
	eventually(t, "the API server refuses conditions", func() error {
		if err := n.api.Get(t.Context(), client.ObjectKey{Name: n.name}, node); err != nil {
			return err
		}
		before := node.DeepCopy()
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "Test", Status: corev1.ConditionTrue})
		if err := n.api.Status().Patch(t.Context(), node, client.MergeFrom(before), client.DryRunAll); err == nil {
			return errors.New("it takes them")
		}
		return nil
	})
	return func() {
		if err := n.api.Delete(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
}

// conditions returns nil while the node's object has both conditions of the daemon.
func (n *apiNode) conditions() error {
	var node corev1.Node
	if err := n.api.Get(context.Background(), client.ObjectKey{Name: n.name}, &node); err != nil {
		return err
	}
	own := 0
	for _, c := range node.Status.Conditions {
		if v1alpha1.OfDaemon(string(c.Type), c.Reason) {
			own++
		}
	}
	if own != 2 {
		return fmt.Errorf("conditions: %v", node.Status.Conditions)
	}
	return nil
}

func TestRollCall_AddressHeldByOther_CutOff(t *testing.T) {
	n := newAPINode(t, "api-lost")
	n.vpc(t, "lost", 53)
	n.start(t)
	b, reach := n.pair(t, "lost")
	n.link.cut()
	held, err := n.address(b)
	if err != nil {
		t.Fatal(err)
	}
	n.deleteAddress(t, b)
	other := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: held.Name}, Spec: held.Spec}
	other.Spec.Node, other.Spec.Holder.Name, other.Spec.Holder.UID = "elsewhere", "lost-c", "uid-c"
	n.create(t, other)
	n.link.restore()
	eventually(t, "the pod is cut off", func() error {
		if reach() == nil {
			return fmt.Errorf("it is reached")
		}
		return nil
	})
	for _, kind := range []string{"Pod", "Node"} {
		eventually(t, "an event tells of it on the "+kind, func() error { return n.event(kind, v1alpha1.AddressLostReason, "lost-c") })
	}
	if err := n.api.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is reached again", reach)
}

// event returns nil if a warning about an object of a kind exists.
func (n *apiNode) event(kind, reason, text string) error {
	var list eventsv1.EventList
	if err := n.api.List(context.Background(), &list, client.InNamespace("default")); err != nil {
		return err
	}
	for _, event := range list.Items {
		if event.Regarding.Kind == kind && event.Reason == reason && event.Type == corev1.EventTypeWarning && strings.Contains(event.Note, text) {
			return nil
		}
	}
	return fmt.Errorf("%d events, none of them it", len(list.Items))
}
