// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/remote"
	"github.com/alioth-net/alioth/cnid/inspect/verify"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
)

const namespace = "alioth-system"

func node(name, system string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{corev1.LabelOSStable: system}}}
}

func daemon(on string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "alioth-cnid-" + on, Labels: remote.Labels()},
		Spec:       corev1.PodSpec{NodeName: on, HostNetwork: true},
	}
}

// leak returns an Address whose pod does not exist.
func leak(on string) *v1alpha1.Address {
	return &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: "blue.10.10.1.10", UID: "a1"},
		Spec: v1alpha1.AddressSpec{
			VPC: "blue", Subnet: "net1", IP: "10.10.1.10", MAC: "02:00:0a:0a:01:0a", Node: on, Attachment: "eth0", Set: []string{"10.10.1.10"},
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "ns", Name: "p", UID: "gone"},
		},
	}
}

func newCollector(t *testing.T, calls interceptor.Funcs, objects ...client.Object) (*Collector, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(calls).Build()
	return &Collector{AnswerWithin: DefaultAnswerWithin, api: api, namespace: namespace, ask: func(context.Context, *corev1.Pod) (*nodestatus.Dump, error) {
		return &nodestatus.Dump{Status: nodestatus.Status{Synced: true, Programmed: true}, Unreadable: []string{"no kernel in this test"}}, nil
	}}, api
}

// kindsOf lists the kinds of the found differences, each once.
func kindsOf(found []verify.Difference) []verify.Kind {
	var kinds []verify.Kind
	for _, d := range found {
		kinds = append(kinds, d.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// TestVerifyCollect_UnfollowedSlices_LeftOut: nodes follow no slices of headless Services. A
// slice that names a network outside of VPCs would mean that there is a ClusterIP.
func TestVerifyCollect_UnfollowedSlices_LeftOut(t *testing.T) {
	slice := func(name string, labels map[string]string) *discoveryv1.EndpointSlice {
		labels[discoveryv1.LabelServiceName] = "web"
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels}}
	}
	c, _ := newCollector(t, interceptor.Funcs{}, slice("headless", map[string]string{corev1.IsHeadlessService: ""}), slice("other", map[string]string{}))
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.objects(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	s.View(func(tx store.ReadTx) {
		if rows := store.EndpointSlicesByService(tx, "shop", "web"); len(rows) != 1 || rows[0].Name != "other" {
			t.Errorf("got %d slices, want the one that nodes follow", len(rows))
		}
	})
}

func TestVerifyCollect_LastingDifference_Reported(t *testing.T) {
	c, _ := newCollector(t, interceptor.Funcs{}, node("node1", "linux"), node("windows", "windows"), daemon("node1"), leak("node1"))
	found, err := c.Differences(t.Context(), "", time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	want := []verify.Kind{verify.AddressLeft, verify.AddressOutside, verify.DeviceMissing, verify.NodeUnreadable}
	if got := kindsOf(found); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: %v", got, want, found)
	}
}

func TestVerifyCollect_DifferenceGoneAtRereading_NotReported(t *testing.T) {
	c, api := newCollector(t, interceptor.Funcs{}, node("node1", "linux"), daemon("node1"), leak("node1"))
	answer := c.ask
	c.ask = func(ctx context.Context, pod *corev1.Pod) (*nodestatus.Dump, error) {
		// It comes after the objects were read.
		if err := client.IgnoreNotFound(api.Delete(ctx, leak("node1"))); err != nil {
			return nil, err
		}
		return answer(ctx, pod)
	}
	found, err := c.Differences(t.Context(), "", time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if kinds := kindsOf(found); slices.Contains(kinds, verify.AddressLeft) || !slices.Contains(kinds, verify.NodeUnreadable) {
		t.Errorf("got %v", found)
	}
}

func TestVerifyCollect_NodeSilent_ReportedAndOthersAsked(t *testing.T) {
	c, _ := newCollector(t, interceptor.Funcs{}, node("node1", "linux"), node("node2", "linux"), node("node3", "linux"), daemon("node1"), daemon("node2"))
	answer := c.ask
	c.ask = func(ctx context.Context, pod *corev1.Pod) (*nodestatus.Dump, error) {
		if pod.Spec.NodeName == "node1" {
			return nil, errors.New("connection refused")
		}
		return answer(ctx, pod)
	}
	found, err := c.Differences(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	reported := map[string]string{}
	for _, d := range found {
		if d.Kind == verify.NodeSilent {
			reported[d.Node] = d.What
		}
	}
	if len(reported) != 2 || !strings.Contains(reported["node1"], "connection refused") || !strings.Contains(reported["node3"], "no pod") {
		t.Errorf("silent: %v", reported)
	}
}

func TestVerifyCollect_OneNode_OnlyItReported(t *testing.T) {
	c, _ := newCollector(t, interceptor.Funcs{}, node("node1", "linux"), node("node2", "linux"), daemon("node1"), daemon("node2"), leak("node2"))
	var asked []string
	answer := c.ask
	c.ask = func(ctx context.Context, pod *corev1.Pod) (*nodestatus.Dump, error) {
		asked = append(asked, pod.Spec.NodeName)
		return answer(ctx, pod)
	}
	found, err := c.Differences(t.Context(), "node1", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		if d.Node != "node1" {
			t.Errorf("of another node: %s", d)
		}
	}
	if !slices.Equal(asked, []string{"node1"}) {
		t.Errorf("asked %v", asked)
	}
	if _, err := c.Differences(t.Context(), "node9", 0); err == nil || !strings.Contains(err.Error(), "node9") {
		t.Errorf("an unknown node: %v", err)
	}
}

func TestVerifyCollect_Unreadable_ErrorWithoutDifference(t *testing.T) {
	refused := errors.New("forbidden")
	c, _ := newCollector(t, interceptor.Funcs{List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, ok := list.(*v1alpha1.VNIClaimList); ok {
			return refused
		}
		return api.List(ctx, list, options...)
	}}, node("node1", "linux"), daemon("node1"))
	if found, err := c.Differences(t.Context(), "", 0); !errors.Is(err, refused) || len(found) > 0 {
		t.Errorf("got %v, %v", found, err)
	}
}

func TestVerifyCollect_InvalidObject_Difference(t *testing.T) {
	bad := leak("node1")
	bad.Spec.IP = "ten"
	c, _ := newCollector(t, interceptor.Funcs{}, node("node1", "linux"), daemon("node1"), bad)
	found, err := c.Differences(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(kindsOf(found), verify.ObjectRefused) {
		t.Errorf("got %v", found)
	}
}

func TestVerifyCollect_NodeHoldsVNI_NoDifference(t *testing.T) {
	claim := &v1alpha1.VNIClaim{ObjectMeta: metav1.ObjectMeta{Name: "vni-40", UID: "c"}, Spec: v1alpha1.VNIClaimSpec{VNI: 40, VPC: "gone", VPCUID: "v"}}
	holder := node("node1", "linux")
	holder.UID = "n"
	answer := &v1alpha1.RollCall{
		ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.NodeRollCall("node1"), UID: "a",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node1", UID: "n"}},
		},
		Spec: v1alpha1.RollCallSpec{Call: "now", VNIs: []int32{40}},
	}
	for name, want := range map[string]bool{"held": false, "left": true} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{holder.DeepCopy(), daemon("node1"), claim.DeepCopy()}
			if !want {
				objects = append(objects, answer.DeepCopy())
			}
			c, _ := newCollector(t, interceptor.Funcs{}, objects...)
			found, err := c.Differences(t.Context(), "", 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(kindsOf(found), verify.VNILeft); got != want {
				t.Errorf("VNILeft is %t, want %t: %v", got, want, found)
			}
		})
	}
}
