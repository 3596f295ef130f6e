// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// TestARunningPodKeepsItsAddressWhileTheObjectIsMissing: the operator keeps it for the
// pod and makes the object again, which the daemon has no right to.
func TestARunningPodKeepsItsAddressWhileTheObjectIsMissing(t *testing.T) {
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

// TestACallIsAnsweredOnceNothingUsesWhatTheAPIDoesNotHaveForIt: after the answer the
// operator may give such an address to another pod.
func TestACallIsAnsweredOnceNothingUsesWhatTheAPIDoesNotHaveForIt(t *testing.T) {
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

func TestAPodWhoseAddressSomebodyElseHasIsCutOffUntilItIsItsOwnAgain(t *testing.T) {
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
