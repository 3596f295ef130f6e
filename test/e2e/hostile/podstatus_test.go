// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// operatorUser is who the operator is for the API server.
const operatorUser = "system:serviceaccount:" + cluster.SystemNamespace + ":alioth-operator"

// gate keeps a pod from the scheduler.
const gate = "example.com/forging"

// naming returns a pod behind a scheduling gate with a hand-written annotation: an address of a
// VPC.
func naming(t *testing.T, pod *corev1.Pod, vpc, ip string) *corev1.Pod {
	t.Helper()
	text, err := annotations.FormatAttachments([]netif.Interface{{
		Name: "eth0", Kind: netif.KindPair, VPC: vpc, Subnet: vpc + "-net1", MAC: "02:00:0a:0a:01:4d",
		Addresses: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(ip), 24)}, Gateways: []netip.Addr{netip.MustParseAddr("10.10.1.1")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AttachmentsAnnotation, text)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, arktosv1.ReadinessAnnotation, "true")
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
	return pod
}

// pretendReady writes the condition that says that a pod has its addresses.
func pretendReady(ctx context.Context, c client.Client, pod *corev1.Pod) error {
	before := pod.DeepCopy()
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: v1alpha1.NetworkReadyCondition, Status: corev1.ConditionTrue, Reason: v1alpha1.AttachedReason,
	})
	return c.Status().Patch(ctx, pod, client.StrategicMergeFrom(before))
}

// pastAdmission returns a client whose writes to pods/status no policy refuses: it has the
// name of the operator.
func (e *env) pastAdmission(t *testing.T) client.Client {
	t.Helper()
	config := rest.CopyConfig(e.Lab.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: operatorUser, Groups: []string{"system:authenticated"}}
	c, err := client.New(config, client.Options{Scheme: e.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// gatekeeper returns who may write the status of pods in a namespace, as a controller of
// readiness gates does.
func (e *env) gatekeeper(t *testing.T, namespace string) *scene.Scene {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "gatekeeper-" + namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "create", "update", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"update", "patch"}},
	}}
	e.Make(t, role)
	return e.PersonWith(t, namespace, role.Name)
}

// open removes the gate of a pod.
func open(ctx context.Context, c client.Client, pod *corev1.Pod) error {
	before := pod.DeepCopy()
	pod.Spec.SchedulingGates = nil
	return c.Patch(ctx, pod, client.MergeFrom(before))
}

// TestPodStatus_HandWritten_GivesNoAddress: a writer of pods/status names addresses of another
// tenant's VPC. Admission refuses the condition. Where it does not, the next operator decides the
// pods as new ones, and their owner's VPC keeps its addresses. The scene runs alone, because it
// kills an operator.
func TestPodStatus_HandWritten_GivesNoAddress(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	victim, thief := e.Tenant(t, stage.Overlapping("robbed")), e.Tenant(t, stage.Overlapping("forging"))
	ctx := stage.Within(t, stage.Patience)
	writer := e.gatekeeper(t, thief.Namespace.Name)

	forged := naming(t, thief.Pod("forged", scene.OnNode(first)), victim.Name, "10.10.1.77")
	e.Make(t, forged)
	wantDenied(t, "the condition by a writer of pods/status", pretendReady(ctx, writer.Client, forged.DeepCopy()), "only the Alioth operator changes conditions")
	wantDenied(t, "the condition by an administrator", pretendReady(ctx, e.Client, forged.DeepCopy()), "only the Alioth operator changes conditions")

	pods := []*corev1.Pod{forged}
	for i := range 3 { // these take addresses, and never run
		pod := naming(
			t,
			scene.Pod(thief.Namespace.Name, fmt.Sprintf("squat-%d", i), scene.InNetwork("none"), scene.OnNode(second)),
			victim.Name,
			fmt.Sprintf("10.10.1.%d", 80+i),
		)
		e.Make(t, pod)
		pods = append(pods, pod)
	}
	e.openedAfterARestart(t, writer.Client, pods)
	if err := e.WaitReady(ctx, forged); err != nil {
		t.Fatal(err)
	}

	owners := []*corev1.Pod{victim.Pod("first", scene.OnNode(first), scene.WithNIC(`{"ip": "10.10.1.77"}`))}
	for i := range 3 {
		owners = append(owners, victim.Pod(fmt.Sprintf("owner-%d", i), scene.OnNode(second), scene.WithNIC(fmt.Sprintf(`{"ip": "10.10.1.%d"}`, 80+i))))
	}
	e.Run(t, owners...)
	for _, pod := range pods {
		e.awaitEvent(t, pod, v1alpha1.AllocationReplacedReason, v1alpha1.AttachmentsAnnotation)
	}
	e.holdsNothingOf(t, victim, pods)
	results, err := e.Ask(ctx, forged, silenceTime, scene.Targets([]string{"http"}, scene.IP(owners[1], false))...)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if result.OK {
			t.Errorf("the forged pod reaches %s: %+v", result.Target, result)
		}
	}
}

// openedAfterARestart writes the condition of gated pods past admission, replaces the operator
// that has seen them without it, and removes the gates.
func (e *env) openedAfterARestart(t *testing.T, writer client.Client, pods []*corev1.Pod) {
	t.Helper()
	ctx, past := stage.Within(t, stage.Patience), e.pastAdmission(t)
	for _, pod := range pods {
		if err := pretendReady(ctx, past, pod); err != nil {
			t.Fatal(err)
		}
	}
	before, err := e.KillLeader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.AwaitOtherLeader(ctx, before); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if err := open(ctx, writer, pod); err != nil {
			t.Fatal(err)
		}
	}
}

// holdsNothingOf checks that no Address of a tenant's VPC names one of the pods.
func (e *env) holdsNothingOf(t *testing.T, tenant *scene.Tenant, pods []*corev1.Pod) {
	t.Helper()
	var list v1alpha1.AddressList
	if err := e.Client.List(stage.Within(t, stage.Patience), &list, client.MatchingFields{"spec.vpc": tenant.VPC.Name}); err != nil {
		t.Fatal(err)
	}
	for _, address := range list.Items {
		if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return string(pod.UID) == address.Spec.Holder.UID }) {
			t.Errorf("pod %s/%s holds %s", address.Spec.Holder.Namespace, address.Spec.Holder.Name, address.Name)
		}
	}
}

// forgePast writes a text as the operator's annotation of a pod, or removes the annotation for "".
func (f *forger) forgePast(t *testing.T, past client.Client, pod *corev1.Pod, text string) {
	t.Helper()
	before := &corev1.Pod{}
	if err := past.Get(stage.Within(t, stage.Patience), client.ObjectKeyFromObject(pod), before); err != nil {
		t.Fatal(err)
	}
	changed := before.DeepCopy()
	if metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1alpha1.AttachmentsAnnotation, text); text == "" {
		delete(changed.Annotations, v1alpha1.AttachmentsAnnotation)
	}
	if err := past.Status().Patch(stage.Within(t, stage.Patience), changed, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// TestAnnotation_ForgedPastAdmission_InterfacesUnchanged removes and forges the operator's
// annotation of pods that their node is about to attach, past the policies. The nodes go by
// Addresses and AttachmentClaims.
func TestAnnotation_ForgedPastAdmission_InterfacesUnchanged(t *testing.T) {
	t.Parallel()
	e := start(t)
	f := e.forger(t)
	past := e.pastAdmission(t)
	texts := f.forgeries(t)
	texts["removed"], texts["broken"] = "", "{"
	for name, text := range texts {
		pod := f.Pod("past-"+name, scene.OnNode(f.node), scene.WithInterfaces(fmt.Sprintf(`[{"vpc":%q},{"vpc":%q}]`, f.VPC.Name, f.VPC.Name)))
		f.create(t, pod)
		f.forgePast(t, past, pod, text)
		if err := f.WaitReady(stage.Within(t, stage.Patience), pod); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f.noDeviceOfNode(t, pod)
		records := f.recordsOf(t, pod)
		if len(records) != 2 || slices.ContainsFunc(records, f.isForeign) {
			t.Errorf("%s: node %s has attached pod %s by %+v, want two interfaces in its VPC", name, f.node, pod.Name, records)
		}
	}
}
