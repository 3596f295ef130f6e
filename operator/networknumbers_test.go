// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// numbered waits until the DanmNet "lan" of a namespace has exactly one number, and returns
// that and the UID of the network.
func (r *rig) numbered(namespace string) (number int32, uid string) {
	r.t.Helper()
	net := &danmv1.DanmNet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lan"}}
	r.get(net)
	r.eventually(func() error {
		held := r.numbersOf(string(net.UID))
		if len(held) != 1 {
			return fmt.Errorf("the network of %s has the numbers %v, want one", namespace, held)
		}
		number = held[0]
		return nil
	})
	return number, string(net.UID)
}

// numbersOf returns the numbers of the network of that UID.
func (r *rig) numbersOf(uid string) (held []int32) {
	r.t.Helper()
	var list v1alpha1.DomainClaimList
	if err := r.List(r.t.Context(), &list); err != nil {
		r.t.Fatal(err)
	}
	for _, claim := range list.Items {
		if claim.Spec.Network.UID == uid {
			held = append(held, claim.Spec.Number)
		}
	}
	return held
}

// unnumbered waits until the network of that UID has no number.
func (r *rig) unnumbered(uid string) {
	r.t.Helper()
	r.eventually(func() error {
		if held := r.numbersOf(uid); len(held) > 0 {
			return fmt.Errorf("network %s still has the numbers %v", uid, held)
		}
		return nil
	})
}

// ends deletes a pod, and releases its interfaces and addresses as its node does.
func (r *rig) ends(pod *corev1.Pod) {
	r.t.Helper()
	r.delete(pod)
	for _, address := range r.held(string(pod.UID)) {
		r.delete(&address)
	}
	r.eventually(func() error {
		var list v1alpha1.AttachmentClaimList
		if err := r.List(r.t.Context(), &list, client.InNamespace(pod.Namespace)); err != nil {
			return err
		}
		left := 0
		for i := range list.Items {
			claim := &list.Items[i]
			if claim.Spec.Pod.UID != string(pod.UID) {
				continue
			}
			left++
			claim.Status.Released = true
			if err := r.Status().Update(r.t.Context(), claim); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		if left > 0 {
			return fmt.Errorf("pod %s has %d AttachmentClaims", pod.Name, left)
		}
		return nil
	})
}

func TestNetworkNumbers_NetworksOfPods_Distinct(t *testing.T) {
	r := newRig(t)
	stop := r.operate(testConfig())
	r.lan("numbers-a")
	r.lan("numbers-b")
	one, two := r.onLAN("numbers-a", "one", 11, 80), r.onLAN("numbers-b", "two", 11, 80)
	a, uidA := r.numbered("numbers-a")
	b, _ := r.numbered("numbers-b")
	if a == b {
		t.Fatalf("both networks have the number %d", a)
	}

	stop()
	stop = r.operate(testConfig())
	three := r.onLAN("numbers-a", "three", 12, 80)
	if now, _ := r.numbered("numbers-a"); now != a {
		t.Errorf("the number is %d after a restart of the operator, and was %d", now, a)
	}

	r.ends(one)
	r.ends(three)
	if now, _ := r.numbered("numbers-a"); now != a {
		t.Errorf("the number is %d without pods, and was %d", now, a)
	}
	net := &danmv1.DanmNet{ObjectMeta: metav1.ObjectMeta{Namespace: "numbers-a", Name: "lan"}}
	r.get(net)
	anew := &danmv1.DanmNet{ObjectMeta: metav1.ObjectMeta{Namespace: "numbers-a", Name: "lan"}, Spec: net.Spec}
	r.delete(net)
	r.unnumbered(uidA)
	r.create(anew)
	sees(r, anew, func(n *danmv1.DanmNet) error { return ready(n.Status.Conditions, v1alpha1.ReadyReason) })
	r.onLAN("numbers-a", "four", 11, 80)
	if now, uid := r.numbered("numbers-a"); now == b || uid == uidA {
		t.Errorf("the network that was made anew has the number %d and UID %s", now, uid)
	}
	r.ends(two)
	stop()
}
