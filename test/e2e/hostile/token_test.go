// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// claimFor returns an Address of a node in the name of a pod.
func claimFor(pod *corev1.Pod, vpc, ip, node string) *v1alpha1.Address {
	return &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.AddressName(vpc, netip.MustParseAddr(ip)), Annotations: map[string]string{"alioth.dev/asserted": "stolen"},
		},
		Spec: v1alpha1.AddressSpec{
			VPC: vpc, Subnet: vpc + "-net1", IP: ip, MAC: "02:00:00:00:00:66", Node: node, Attachment: v1alpha1.PodAttachment,
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
			Set:    []string{ip},
		},
	}
}

// TestStolenToken_PodOfOtherNode_Unchanged has the token of the first node's daemon claim for a pod
// of the second. Then it has an administrator write the same, which no token can, and checks that
// the pod is as before.
func TestStolenToken_PodOfOtherNode_Unchanged(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("victim"))
	victim, peer := tenant.Pod("victim", scene.OnNode(second)), tenant.Pod("peer", scene.OnNode(first))
	e.Run(t, victim, peer)
	thief := e.Steal(t, first)
	ctx := stage.Within(t, stage.Patience)

	var before v1alpha1.AddressList
	if err := e.Client.List(ctx, &before); err != nil {
		t.Fatal(err)
	}
	uids := map[string]string{}
	for _, address := range before.Items {
		if address.Spec.Holder.UID == string(victim.UID) {
			uids[address.Name] = string(address.UID)
			err := thief.Delete(ctx, &address, client.Preconditions{UID: &address.UID})
			if !apierrors.IsForbidden(err) {
				t.Errorf("deleting another node's %s: %v", address.Name, err)
			}
		}
	}
	free := scene.IP(victim, false).As4()
	free[3] ^= 0x40
	intruder := claimFor(victim, tenant.Name, netip.AddrFrom4(free).String(), first)
	for _, object := range []*v1alpha1.Address{
		intruder.DeepCopy(), claimFor(peer, tenant.Name, intruder.Spec.IP, first), claimFor(victim, tenant.Name, intruder.Spec.IP, second),
	} {
		if err := thief.Create(ctx, object); !apierrors.IsForbidden(err) {
			t.Errorf("a claim of a stolen token for pod %s on %s: %v", object.Spec.Holder.Name, object.Spec.Node, err)
		}
	}

	e.Make(t, intruder) // by an administrator
	if err := e.WaitGone(ctx, intruder); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: first}}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	e.awaitEvent(t, node, v1alpha1.AddressNotOfNodeReason, victim.Name)
	var after v1alpha1.AddressList
	if err := e.Client.List(ctx, &after); err != nil {
		t.Fatal(err)
	}
	for _, address := range after.Items {
		if address.Spec.Holder.UID == string(victim.UID) && uids[address.Name] != string(address.UID) {
			t.Errorf("the victim holds %s, which it did not", address.Name)
		}
	}
	results, err := e.Ask(ctx, peer, answerTime, scene.Targets([]string{"http"}, scene.IPs(victim)...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if !result.OK {
			t.Errorf("%s: %+v", result.Target, result)
		}
	}
}

// addressesOf returns the UIDs of the Addresses that the pods hold, by name.
func (e *env) addressesOf(t *testing.T, pods ...*corev1.Pod) map[string]types.UID {
	t.Helper()
	var addresses v1alpha1.AddressList
	if err := e.Client.List(stage.Within(t, stage.Patience), &addresses); err != nil {
		t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for _, address := range addresses.Items {
		if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return address.Spec.Holder.UID == string(pod.UID) }) {
			uids[address.Name] = address.UID
		}
	}
	return uids
}

// TestStolenToken_TracesOfOtherDaemon_Kept has the token of the first node's daemon remove the
// traces of the second node's daemon. Without traces, the operator would take the node for one
// without a daemon, and release addresses of pods whose objects are deleted by force, although
// their containers still run (docs/design/159).
func TestStolenToken_TracesOfOtherDaemon_Kept(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("traces"))
	victim, peer := tenant.Pod("victim", scene.OnNode(second)), tenant.Pod("peer", scene.OnNode(first))
	e.Run(t, victim, peer)
	thief := e.Steal(t, first)
	ctx := stage.Within(t, stage.Patience)
	held := e.addressesOf(t, victim, peer)
	if len(held) == 0 {
		t.Fatal("the pods hold no addresses")
	}

	call := &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(second)}}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(call), call); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{}
	if err := e.Client.Get(ctx, client.ObjectKey{Name: second}, node); err != nil {
		t.Fatal(err)
	}
	bare := node.DeepCopy()
	bare.Status.Conditions = slices.DeleteFunc(bare.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == v1alpha1.NetworkHealthyCondition || c.Type == corev1.NodeNetworkUnavailable
	})
	if len(bare.Status.Conditions) == len(node.Status.Conditions) {
		t.Fatalf("node %s has no condition of its daemon: %+v", second, node.Status.Conditions)
	}
	emptied := call.DeepCopy()
	emptied.Spec.VNIs = nil
	own := &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(first)}}
	ownNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: first}}
	for name, err := range map[string]error{
		"deleting the roll call":     thief.Delete(ctx, call.DeepCopy()),
		"emptying the roll call":     thief.Update(ctx, emptied),
		"removing conditions":        thief.Status().Update(ctx, bare),
		"patching conditions away":   thief.Status().Patch(ctx, bare.DeepCopy(), client.MergeFrom(node)),
		"deleting the node":          thief.Delete(ctx, node.DeepCopy()),
		"the node out of service":    thief.Patch(ctx, node.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}`))),
		"deleting the pod by force":  thief.Delete(ctx, victim.DeepCopy(), client.GracePeriodSeconds(0)),
		"a roll call in other words": thief.Create(ctx, &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(second) + "x"}, Spec: call.Spec}),
		"deleting its own roll call": thief.Delete(ctx, own),
		"a label of its own node":    thief.Status().Patch(ctx, ownNode, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/stolen":""}}}`))),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}

	now := &corev1.Node{}
	if err := e.Client.Get(ctx, client.ObjectKey{Name: second}, now); err != nil {
		t.Fatal(err)
	}
	if len(now.Status.Conditions) < len(node.Status.Conditions) || len(now.Spec.Taints) != len(node.Spec.Taints) {
		t.Errorf("the node has lost conditions, or has other taints: %+v", now)
	}
	kept := &v1alpha1.RollCall{}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(call), kept); err != nil || kept.UID != call.UID || len(kept.Spec.VNIs) == 0 {
		t.Errorf("the roll call is %+v: %v", kept.Spec, err)
	}
	if now := e.addressesOf(t, victim, peer); !maps.Equal(now, held) {
		t.Errorf("the pods hold the addresses %v, want %v as before", now, held)
	}
	e.ExpectAnswers(t, peer, stage.WantPod(victim))
	e.ExpectAnswers(t, victim, stage.WantPod(peer))
}

// TestStolenToken_InterfaceOfOtherNode_NotReleased has the token of the first node's daemon report
// that a pod of the second node has lost its interface, and write in the operator's place.
func TestStolenToken_InterfaceOfOtherNode_NotReleased(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	f := e.forger(t)
	victim := f.victim.Pod("victim", scene.OnNode(second), scene.WithInterfaces(fmt.Sprintf(`[{"network":%q,"ip":"dynamic"}]`, f.secret.Name)))
	e.Run(t, victim)
	ctx := stage.Within(t, stage.Patience)
	claim := &v1alpha1.AttachmentClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: victim.Namespace, Name: v1alpha1.AttachmentClaimName(string(victim.UID), "eth0"),
	}}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	thief := e.Steal(t, first)
	forged := claim.DeepCopy()
	forged.ObjectMeta = metav1.ObjectMeta{Namespace: victim.Namespace, Name: v1alpha1.AttachmentClaimName(string(victim.UID), "net1")}
	forged.Spec.Interface, forged.Spec.Node = "net1", first
	for what, try := range map[string]func(object *v1alpha1.AttachmentClaim) error{
		"report the release": func(object *v1alpha1.AttachmentClaim) error {
			return thief.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"status":{"released":true}}`)))
		},
		"remove the finalizer": func(object *v1alpha1.AttachmentClaim) error {
			return thief.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		},
		"delete the claim": func(object *v1alpha1.AttachmentClaim) error { return thief.Delete(ctx, object) },
		"claim an interface": func(*v1alpha1.AttachmentClaim) error {
			return thief.Create(ctx, forged.DeepCopy())
		},
	} {
		if err := try(claim.DeepCopy()); !apierrors.IsForbidden(err) {
			t.Errorf("a stolen token tries to %s: %v, want Forbidden", what, err)
		}
	}
	now := claim.DeepCopy()
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(claim), now); err != nil {
		t.Fatal(err)
	}
	if now.UID != claim.UID || now.Status.Released || !now.DeletionTimestamp.IsZero() {
		t.Errorf("the claim is %+v, want it as before", now)
	}
	if records := f.recordsOf(t, victim); len(records) != 1 {
		t.Errorf("node %s has attached the victim by %+v, want one interface", second, records)
	}

	// Nobody ends the claim of a pod that has its interface, also not who may delete it.
	if err := e.Client.Delete(ctx, claim); err != nil {
		t.Fatal(err)
	}
	later := f.victim.Pod("later", scene.OnNode(second), scene.WithInterfaces(fmt.Sprintf(`[{"network":%q,"ip":"dynamic"}]`, f.secret.Name)))
	e.Run(t, later) // the operator has seen the deletion before
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(claim), now); err != nil || now.UID != claim.UID || now.Status.Released {
		t.Errorf("the claim of a pod that runs is %+v (%v), want it to wait for the node", now, err)
	}

	if err := e.Client.Delete(ctx, later); err != nil {
		t.Error(err)
	}
	e.end(t, victim, f.secret)
	if err := e.WaitGone(ctx, claim); err != nil {
		t.Errorf("the node of the pod did not release its interface: %v", err)
	}
}
