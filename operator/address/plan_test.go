// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package address

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

func TestAddress_HolderOrNodeGone_Released(t *testing.T) {
	pod := operatortest.Pod("blue", "a", "p", "", "")
	deleting, terminal, successor := *pod, *pod, *pod
	deleting.Deleting, terminal.Terminal, successor.UID = true, true, "successor"
	held := operatortest.Address("v", "s", "10.0.0.9", pod)
	assumed := *held
	assumed.UID = ""
	elsewhere, misnamed, guessed := *held, *held, *held
	elsewhere.Node, misnamed.Holder.Name, guessed.Node, guessed.UID = "node-2", "q", "node-2", ""
	unbound, there := *pod, *pod
	unbound.Node, there.Node = "", "node-2"
	ofNode := *held
	ofNode.Holder = store.Holder{Kind: store.HolderNode, Name: "node-1", UID: "n1"}
	service := &store.Service{Meta: operatortest.Meta("web", 0), Namespace: "a", Name: "web"}
	leaving, next := *service, *service
	leaving.Deleting, next.UID = true, "successor"
	virtual := operatortest.ServiceAddress("v", "s", "10.0.8.9", service)
	planned := *virtual
	planned.UID = ""
	node := &store.Node{Meta: operatortest.Meta("n1", 0), Name: "node-1"}
	outOfService := &store.Node{Meta: operatortest.Meta("n1", 0), Name: "node-1", OutOfService: true}
	answer := &store.RollCall{Meta: operatortest.Meta("r1", 0), Name: v1alpha1.NodeRollCall("node-1")}
	other := &store.RollCall{Meta: operatortest.Meta("r2", 0), Name: v1alpha1.NodeRollCall("node-2")}
	for _, tc := range []struct {
		name    string
		address *store.Address
		rows    []any
		want    verb
	}{
		{"a living pod", held, []any{pod, node}, keep},
		{"a pod that is being deleted", held, []any{&deleting, node}, keep},
		{"a pod that ended", held, []any{&terminal, node}, keep},
		{"a living pod on a node that is gone", held, []any{pod}, keep},
		{"a pod that is gone from a living node", held, []any{node, answer}, keep},
		{"a pod that is gone, its successor lives", held, []any{&successor, node, answer}, keep},
		{"a pod that is gone from a node without a daemon", held, []any{node, other}, release},
		{"a living pod on a node without a daemon", held, []any{pod, node}, keep},
		{"a pod that is being deleted on a node without a daemon", held, []any{&deleting, node}, keep},
		{"a pod that is gone with its node", held, nil, release},
		{"a pod that is gone, its node is out of service", held, []any{outOfService}, release},
		{"a pod that is gone with its node, its successor lives", held, []any{&successor}, release},
		{"never created, the pod lives", &assumed, []any{pod, node}, keep},
		{"never created, the pod is gone", &assumed, []any{node}, forget},
		{"for a pod of another node", &elsewhere, []any{pod, node}, expel},
		{"for a pod of another node that is gone itself", &elsewhere, []any{pod}, expel},
		{"for a pod of another name", &misnamed, []any{pod, node}, expel},
		{"for a pod that is bound to no node", held, []any{&unbound, node}, expel},
		{"for a pod that went to another node", held, []any{&there, node}, expel},
		{"for a pod of another node that is being deleted", &elsewhere, []any{&deleting, node}, expel},
		{"never created, and for a pod of another node", &guessed, []any{pod, node}, forget},
		{"a node's own", &ofNode, nil, keep},
		{"a Service's", virtual, []any{service}, keep},
		{"a Service's that is being deleted", virtual, []any{&leaving}, keep},
		{"a Service's that is gone", virtual, nil, release},
		{"a Service's that is gone, its successor lives", virtual, []any{&next}, release},
		{"never created, the Service lives", &planned, []any{service}, keep},
		{"never created, the Service is gone", &planned, nil, forget},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, append(tc.rows, tc.address)...).View(func(tx store.ReadTx) {
				if got := decide(tx, tc.address, true); got != tc.want {
					t.Errorf("verb %d, want %d", got, tc.want)
				}
				r := &Reconciler{Claimer: &claim.Claimer{Term: operatortest.Term(true)}}
				if requested := r.undecided(tx); (len(requested) > 0) != (tc.want != keep) {
					t.Errorf("an operator that starts requests %v", requested)
				}
			})
		})
	}
}

// TestAddress_TermUnsettled_NotReleasedForSilence: until then daemons that run
// may not have answered.
func TestAddress_TermUnsettled_NotReleasedForSilence(t *testing.T) {
	held := operatortest.Address("v", "s", "10.0.0.9", operatortest.Pod("blue", "a", "p", "", ""))
	node := &store.Node{Meta: operatortest.Meta("n1", 0), Name: "node-1"}
	operatortest.New(t, held, node).View(func(tx store.ReadTx) {
		if got := decide(tx, held, false); got != keep {
			t.Errorf("verb %d, want %d", got, keep)
		}
	})
}

// TestNode_DaemonObjectsGone_HasLetGo: the store may be a moment behind.
func TestNode_DaemonObjectsGone_HasLetGo(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	node := func(edit func(n *corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "n1"}}
		edit(n)
		return n
	}
	plain := node(func(*corev1.Node) {})
	healthy := node(func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: v1alpha1.NetworkHealthyCondition, Status: corev1.ConditionTrue}}
	})
	started := node(func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Reason: v1alpha1.NetworkUpReason}}
	})
	flannels := node(func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Reason: "FlannelIsUp"}}
	})
	tainted := node(func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	})
	answer := &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall("node-1")}}
	other := &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall("node-2")}}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    bool
	}{
		"the node is gone":                  {[]client.Object{answer}, true},
		"it is out of service":              {[]client.Object{tainted, answer}, true},
		"its daemon has answered":           {[]client.Object{plain, answer}, false},
		"its daemon has written to it":      {[]client.Object{healthy}, false},
		"its daemon has just started":       {[]client.Object{started}, false},
		"it has another network":            {[]client.Object{flannels}, true},
		"it never had a daemon, others had": {[]client.Object{plain, other}, true},
	} {
		live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.objects...).Build()
		if got, err := nodeLetGo(t.Context(), live, "node-1"); err != nil || got != tc.want {
			t.Errorf("%s: %t, %v; want %t", name, got, err, tc.want)
		}
	}
}

// TestAttachmentClaim_NodeReleasedPod_Deleted: the claim also goes when the node can't hold the pod any more.
func TestAttachmentClaim_NodeReleasedPod_Deleted(t *testing.T) {
	pod := operatortest.Pod("blue", "a", "p", "", "")
	deleting, terminal, successor := *pod, *pod, *pod
	deleting.Deleting, terminal.Terminal, successor.UID = true, true, "successor"
	meta := operatortest.Meta("c1", 0)
	meta.Deleting, meta.Finalizer = true, true
	claim := &multinet.Claim{Meta: meta, Namespace: "a", Name: "c1", PodName: pod.Name, PodUID: pod.UID, Node: pod.Node}
	released, there, freed := *claim, *claim, *claim
	released.Released, there.Deleting, freed.Finalizer = true, false, false
	node := &store.Node{Meta: operatortest.Meta("n1", 0), Name: pod.Node}
	outOfService := *node
	outOfService.OutOfService = true
	answer := &store.RollCall{Meta: operatortest.Meta("r1", 0), Name: v1alpha1.NodeRollCall(pod.Node)}
	for _, tc := range []struct {
		name  string
		claim *multinet.Claim
		rows  []any
		want  verb
	}{
		{"the pod lives", &there, []any{pod, node}, keep},
		{"the pod has gone and left it", &there, []any{node}, expel},
		{"somebody deleted it, the pod lives", claim, []any{pod, node}, keep},
		{"the pod is being deleted", claim, []any{&deleting, node}, keep},
		{"the pod has ended", claim, []any{&terminal, node}, keep},
		{"the pod is gone, the node does not say so", claim, []any{node, answer}, keep},
		{"the pod is gone, its successor lives", claim, []any{&successor, node, answer}, keep},
		{"the pod is gone, the node has no daemon", claim, []any{node}, release},
		{"the node released it", &released, []any{node}, forget},
		{"the pod and the node are gone", claim, nil, release},
		{"the pod is gone, the node is out of service", claim, []any{&outOfService}, release},
		{"the pod is being deleted, the node is gone", claim, []any{&deleting}, keep},
		{"its finalizer is gone", &freed, nil, keep},
	} {
		operatortest.New(t, tc.rows...).View(func(tx store.ReadTx) {
			if got := decideAttachment(tx, tc.claim, true); got != tc.want {
				t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
			}
		})
	}
}
