// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// TestFakeAPI_EachRequest_AnswersLikeRealOne sends both the same requests, and compares the answers that
// claims rest on.
func TestFakeAPI_EachRequest_AnswersLikeRealOne(t *testing.T) {
	r := newRig(t)
	fake := &apiClient{api: newFakeAPI(time.Now), hook: func(_ string, _ client.Object, effect func() error) error { return effect() }}
	if err := fake.Create(t.Context(), newNamespace("like-real", "")); err != nil {
		t.Fatal(err)
	}
	r.create(newNamespace("like-real", ""))
	want, got := answers(t, r.Client), answers(t, fake)
	if !slices.Equal(want, got) {
		for i := range want {
			if i >= len(got) || want[i] != got[i] {
				t.Errorf("the real one: %s\nthe fake one: %s", want[i], got[i])
			}
		}
	}
}

// answers returns the results of requests in order.
func answers(t *testing.T, c client.Client) []string {
	t.Helper()
	var log []string
	ctx := t.Context()
	tell := func(what string, err error, facts ...any) {
		log = append(log, fmt.Sprintln(what, apierrors.ReasonForError(err), facts))
	}
	other := types.UID("another")
	claim := func() *v1alpha1.VNIClaim {
		object := &v1alpha1.VNIClaim{Spec: v1alpha1.VNIClaimSpec{VNI: 1_000_001, VPC: "like-real", VPCUID: "x"}}
		object.Name = v1alpha1.VNIClaimName(1_000_001)
		return object
	}
	first := claim()
	tell("create", c.Create(ctx, first), first.UID != "", first.ResourceVersion != "", first.Generation)
	tell("create again", c.Create(ctx, claim()))
	tell("delete another's", c.Delete(ctx, claim(), client.Preconditions{UID: &other}))
	tell("delete", c.Delete(ctx, claim(), client.Preconditions{UID: &first.UID}))
	tell("delete again", c.Delete(ctx, claim(), client.Preconditions{UID: &first.UID}))
	second := claim()
	tell("create a successor", c.Create(ctx, second), second.UID != first.UID)
	tell("a late delete", c.Delete(ctx, claim(), client.Preconditions{UID: &first.UID}))
	tell("clean up", c.Delete(ctx, second))

	service := newBalancer("like-real", "lb", nil)
	tell("create a load balancer", c.Create(ctx, service))
	shown := clone(service)
	shown.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
	tell("show its address", c.Status().Patch(ctx, shown, client.MergeFrom(service)), len(shown.Status.LoadBalancer.Ingress))
	shown.Spec.Type, shown.Spec.LoadBalancerClass, shown.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeClusterIP, nil, nil
	tell("make it another type", c.Update(ctx, shown), len(shown.Status.LoadBalancer.Ingress))

	vpc := newVPC("like-real", nil, "10.0.0.0/16")
	vpc.Status.VNI, vpc.Finalizers = 7, []string{v1alpha1.Finalizer}
	tell("create with a status", c.Create(ctx, vpc), vpc.Status.VNI)
	stale := clone(vpc)
	version := vpc.ResourceVersion
	tell("update nothing", c.Update(ctx, vpc), vpc.ResourceVersion == version, vpc.Generation)
	vpc.Spec.AllowedTenants, vpc.Status.VNI = []string{"a"}, 8
	tell("update", c.Update(ctx, vpc), vpc.ResourceVersion == version, vpc.Generation, vpc.Status.VNI)
	tell("update an old copy", c.Update(ctx, clone(stale)))
	changed := clone(stale)
	changed.Status.VNI = 9
	tell("patch the status of an old copy", c.Status().Patch(ctx, changed, client.MergeFromWithOptions(stale, client.MergeFromWithOptimisticLock{})))
	changed = clone(vpc)
	changed.Status.VNI = 9
	tell(
		"patch the status",
		c.Status().Patch(ctx, changed, client.MergeFromWithOptions(vpc, client.MergeFromWithOptimisticLock{})),
		changed.Status.VNI,
		changed.Generation,
	)
	tell("delete what has a finalizer", c.Delete(ctx, clone(changed)))
	held := newVPC("like-real", nil)
	tell("it is still there", c.Get(ctx, client.ObjectKeyFromObject(held), held), held.DeletionTimestamp != nil)
	tell("its name is not free", c.Create(ctx, newVPC("like-real", nil, "10.0.0.0/16")))
	freed := clone(held)
	freed.Finalizers = nil
	tell("remove the finalizer of an old copy", c.Patch(ctx, clone(freed), client.MergeFromWithOptions(vpc, client.MergeFromWithOptimisticLock{})))
	tell("remove the finalizer", c.Patch(ctx, freed, client.MergeFromWithOptions(held, client.MergeFromWithOptimisticLock{})), len(freed.Finalizers))
	tell("it is gone", c.Get(ctx, client.ObjectKeyFromObject(held), held))

	pod := newPod("like-real", "p", "", "")
	tell("create a pod", c.Create(ctx, pod))
	patch := func(uid types.UID) client.Patch {
		return client.RawPatch(types.StrategicMergePatchType, []byte(fmt.Sprintf(
			`{"metadata":{"uid":%q,"annotations":{"a":"b"}},"status":{"conditions":[{"type":"x/Y","status":"True"}]}}`, uid)))
	}
	tell("patch another pod's status", c.Status().Patch(ctx, newPod("like-real", "p", "", ""), patch(other)))
	patched := newPod("like-real", "p", "", "")
	err := c.Status().Patch(ctx, patched, patch(pod.UID))
	has := slices.ContainsFunc(patched.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == "x/Y" })
	tell("patch a pod's status", err, patched.Annotations["a"], has)
	tell("patch nobody's status", c.Status().Patch(ctx, newPod("like-real", "q", "", ""), patch(other)))
	return log
}
