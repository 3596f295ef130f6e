// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/store"
)

// address returns the Address object of a pod, or nil.
func (n *apiNode) address(p *labPod) (*v1alpha1.Address, error) {
	var address v1alpha1.Address
	err := n.api.Get(context.Background(), client.ObjectKey{Name: v1alpha1.AddressName(p.vpc, p.ip(true))}, &address)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &address, err
}

func (n *apiNode) deleteAddress(t *testing.T, p *labPod) {
	t.Helper()
	address := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(p.vpc, p.ip(true))}}
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

// answered is nil when the node has answered a call, with this VNI or without.
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

func TestTheAPIGetsBackTheAddressThatARunningPodHolds(t *testing.T) {
	n := newAPINode(t, "api-asserts")
	n.vpc(t, "asserts", 51)
	n.start(t)
	p := n.pod(t, "asserts-a", "asserts", "10.10.1.10", nil)
	n.decide(t, p)
	if err := n.lab.cni(t, "ADD", p); err != nil {
		t.Fatal(err)
	}
	before, err := n.address(p)
	if err != nil {
		t.Fatal(err)
	}
	n.deleteAddress(t, p)
	var after *v1alpha1.Address
	eventually(t, "the Address is back", func() error {
		after, err = n.address(p)
		if err == nil && after == nil {
			return fmt.Errorf("there is none")
		}
		return err
	})
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("spec (-before +after):\n%s", diff)
	}
	if before.Annotations[v1alpha1.AssertedAnnotation] != "" || after.Annotations[v1alpha1.AssertedAnnotation] == "" {
		t.Errorf("asserted for container %q, then %q", before.Annotations[v1alpha1.AssertedAnnotation], after.Annotations[v1alpha1.AssertedAnnotation])
	}
	n.deletePod(t, p)
	if err := n.lab.cni(t, "DEL", p); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Address is deleted", func() error { return n.addressGone(p) })
}

func TestACallIsAnsweredOnceTheAPIHasWhatTheNodeHolds(t *testing.T) {
	n := newAPINode(t, "api-answers")
	n.vpc(t, "answers", 52)
	n.start(t)
	eventually(t, "it answers without a call", n.answered(v1alpha1.NoCall, 52, false))
	p := n.pod(t, "answers-a", "answers", "10.10.1.10", nil)
	n.decide(t, p)
	if err := n.lab.cni(t, "ADD", p); err != nil {
		t.Fatal(err)
	}
	n.call(t, "first")
	eventually(t, "it answers the first call", n.answered("first", 52, true))

	// A restored backup: the Address is gone, and the daemon sees it late.
	n.link.cut()
	n.deleteAddress(t, p)
	n.call(t, "second")
	n.link.restore()
	eventually(t, "it answers the second call", n.answered("second", 52, true))
	if address, err := n.address(p); err != nil || address == nil {
		t.Errorf("the call is answered and the Address is %v, %v", address, err)
	}
}

func TestAPodWhoseAddressSomebodyElseHasIsCutOffUntilItIsItsOwnAgain(t *testing.T) {
	n := newAPINode(t, "api-lost")
	n.vpc(t, "lost", 53)
	n.start(t)
	a, b := n.pod(t, "lost-a", "lost", "10.10.1.10", nil), n.pod(t, "lost-b", "lost", "10.10.1.11", nil)
	for _, p := range []*labPod{a, b} {
		n.decide(t, p)
		if err := n.lab.cni(t, "ADD", p); err != nil {
			t.Fatal(err)
		}
	}
	b.serve(t)
	reach := func() error {
		conn, got, err := dialFrom(t, a.NetNS, b.ip(true))
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
	eventually(t, "the Address is its own again", func() error {
		now, err := n.address(b)
		if err == nil && (now == nil || now.Spec.Holder.Name != b.name) {
			err = fmt.Errorf("it is %+v", now)
		}
		return err
	})
}

// event is nil if there is a warning about an object of a kind.
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

// TestOnlyWhatIsMissingAndNotLostIsAsserted has no device, so nothing lives.
func TestOnlyWhatIsMissingAndNotLostIsAsserted(t *testing.T) {
	rec := testRecordOf("p1", "10.10.1.10/24")
	holder := store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "p1", UID: "p1"}
	other := store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "p2", UID: "p2"}
	blue := vpcRow("blue", 20, "10.10.0.0/16")
	cases := map[string]struct {
		rows script
		want bool
	}{
		"missing":                 {script{VPCs: []store.VPC{blue}}, true},
		"there":                   {script{VPCs: []store.VPC{blue}, Addresses: []store.Address{addressRow("blue", "blue1", "10.10.1.10", "node1", holder, "10.10.1.10")}}, false},
		"somebody else's":         {script{VPCs: []store.VPC{blue}, Addresses: []store.Address{addressRow("blue", "blue1", "10.10.1.10", "node2", other, "10.10.1.10")}}, false},
		"the VPC is gone":         {script{}, false},
		"the VPC is another one":  {script{VPCs: []store.VPC{vpcRow("blue", 21, "10.10.0.0/16")}}, false},
		"the VPC has not its VNI": {script{VPCs: []store.VPC{vpcRow("blue", 0, "10.10.0.0/16")}}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := store.New()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Update(c.rows.fill); err != nil {
				t.Fatal(err)
			}
			s.View(func(tx store.ReadTx) {
				if got := lacksAddress(tx, rec); got != c.want {
					t.Errorf("got %v, want %v", got, c.want)
				}
			})
		})
	}
	if lives(rec) {
		t.Error("a record without a device lives")
	}
}

func TestANodeTellsOfEveryVNIThatItMayProgram(t *testing.T) {
	s := newTestSyncer(t, alwaysSynced)
	rec := testRecordOf("p1", "10.10.1.10/24") // of VNI 20
	rec, err := s.journal.Begin(rec)
	if err != nil {
		t.Fatal(err)
	}
	rows := script{VPCs: []store.VPC{
		vpcRow("green", 40, "10.40.0.0/16"), vpcRow("pending", 0, "10.50.0.0/16"), vpcRow("elsewhere", 60, "10.60.0.0/16"),
	}}
	s.follows = func() []string { return []string{"green", "pending", "not yet there"} }
	if err := s.store.Update(rows.fill); err != nil {
		t.Fatal(err)
	}
	s.vnis[30] = true // of a pass that is under way
	if diff := cmp.Diff([]uint32{20, 30, 40}, s.held()); diff != "" {
		t.Errorf("VNIs (-want +got):\n%s", diff)
	}
	if err := s.journal.Retire(rec.Key); err != nil {
		t.Fatal(err)
	}
	s.holds(plan.Wanted{}) // the pass after
	if diff := cmp.Diff([]uint32{40}, s.held()); diff != "" {
		t.Errorf("VNIs after the pod has gone (-want +got):\n%s", diff)
	}
}

func testRecordOf(pod, addr string) journal.Record {
	return journal.Record{
		Key: journal.Key{ContainerID: "sandbox-" + pod, IfName: "eth0"}, Pod: journal.Pod{Namespace: "ns", Name: pod, UID: pod},
		Attachment: "eth0", VPC: "blue", VNI: 20, Addrs: []netip.Prefix{netip.MustParsePrefix(addr)}, Subnets: []string{"blue1"},
		HostIfName: "alv-none", Phase: journal.PhaseDone, Device: journal.Device{HostIfindex: 1 << 20},
	}
}
