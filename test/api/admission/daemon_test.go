// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

func address(ip, node string) *v1alpha1.Address {
	return &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName("v", netip.MustParseAddr(ip))},
		Spec: v1alpha1.AddressSpec{
			VPC: "v", Subnet: "s", IP: ip, MAC: "02:00:0a:0a:00:01", Node: node, Attachment: "eth0", Set: []string{ip},
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "n", Name: "p", UID: "u"},
		},
	}
}

// release deletes the very object, as every program does.
func release(admin client.Client, ip string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		object := address(ip, "")
		if err := admin.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return fmt.Errorf("read the address: %w", err)
		}
		return c.Delete(ctx, object, client.DryRunAll, client.Preconditions{UID: &object.UID})
	}
}

func TestDaemonAddressRelease_OtherNode_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, address("10.1.0.1", "node-a"))
	create(t, admin, address("10.1.0.2", "node-b"))
	own := address("10.1.0.4", "node-a")
	own.Spec.Holder = v1alpha1.AddressHolder{Kind: v1alpha1.HolderNode, Name: "node-a", UID: "u"}
	create(t, admin, own)
	attempts := []attempt{
		{"its own", daemonOn("node-a"), release(admin, "10.1.0.1"), ""},
		{"another node's", daemonOn("node-a"), release(admin, "10.1.0.2"), "of its own node only"},
		{"the node's own", daemonOn("node-a"), release(admin, "10.1.0.4"), "of pods only"},
		{"with a token of no node", daemonOn(""), release(admin, "10.1.0.1"), "needs a token that is bound to its pod"},
		{"a kubelet has no right", kubelet(), release(admin, "10.1.0.1"), "forbidden"},
		{"the operator is not held to a node", operator(), release(admin, "10.1.0.2"), ""},
		{"all at once", daemonOn("node-a"), func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, &v1alpha1.Address{}, client.DryRunAll)
		}, "cannot deletecollection"},
		{"the operator updates none", operator(), func(ctx context.Context, c client.Client) error {
			return c.Update(ctx, address("10.1.0.1", "node-a"), client.DryRunAll)
		}, "cannot update"},
	}
	for _, c := range []struct {
		name    string
		who     user
		object  *v1alpha1.Address
		refused string
	}{
		{"it makes one of its own", daemonOn("node-a"), address("10.1.0.3", "node-a"), "cannot create"},
		{"it makes another node's", daemonOn("node-a"), address("10.1.0.3", "node-b"), "cannot create"},
		{"the operator claims for any node", operator(), address("10.1.0.3", "node-b"), ""},
	} {
		attempts = append(attempts, attempt{c.name, c.who, creating(c.object), c.refused})
	}
	run(t, attempts)
	runChanges(t, []change[*v1alpha1.Address]{
		{
			name:    "it changes none",
			who:     daemonOn("node-a"),
			object:  address("10.1.0.1", ""),
			edit:    func(a *v1alpha1.Address) { a.Labels = map[string]string{"a": "b"} },
			refused: "cannot",
		},
		{
			name:    "the operator changes no decision",
			who:     operator(),
			object:  address("10.1.0.1", ""),
			edit:    func(a *v1alpha1.Address) { a.Spec.Node = "node-b" },
			refused: "can't change",
			except:  byUpdate,
		},
	})
}

// TestDaemonAddressCreation_AnyRole_Refused: a role with too many rights is a common accident, also
// in upgrades by hand.
func TestDaemonAddressCreation_AnyRole_Refused(t *testing.T) {
	admin := start(t)
	generous := daemonOn("node-a")
	create(t, admin, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "makes-addresses"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"alioth.dev"}, Resources: []string{"addresses"}, Verbs: []string{"create"}}},
	})
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "makes-addresses"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "makes-addresses"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: generous.name}},
	}
	create(t, admin, binding)
	t.Cleanup(func() {
		if err := admin.Delete(context.WithoutCancel(t.Context()), binding); err != nil {
			t.Error(err)
		}
	})
	for _, node := range []string{"node-a", "node-b"} {
		eventually(t, func(ctx context.Context) error {
			err := creating(address("10.1.0.5", node))(ctx, as(t, generous))
			if err == nil || strings.Contains(err.Error(), "cannot create") {
				return fmt.Errorf("not refused by a policy: %w", err)
			}
			return wantRefused(err, map[string]string{"node-a": "only the operator creates", "node-b": "of its own node only"}[node])
		})
	}
}

func daemonsEvent(node string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "said." + node},
		EventTime:  metav1.NewMicroTime(time.Unix(1, 0)), ReportingController: "alioth.dev/alioth-cnid", ReportingInstance: node,
		Action: "Attach", Reason: "AddressLost", Type: corev1.EventTypeWarning,
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "p"},
	}
}

func TestDaemonEvent_OtherNodeName_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, daemonsEvent("node-a"))
	create(t, admin, daemonsEvent("node-b"))
	again := func(instance string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			text := []byte(`{"reportingInstance": "` + instance + `", "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}`)
			return target{Client: c}.patch(ctx, daemonsEvent("node-b"), types.MergePatchType, text)
		}
	}
	about := func(from, node string) *eventsv1.Event {
		event := daemonsEvent(from)
		event.Name, event.Regarding = "about."+node+"."+from, corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node}
		return event
	}
	held := daemonsEvent("node-a")
	held.Name, held.Finalizers = "held", []string{"example.com/mine"}
	run(t, []attempt{
		{"its own", daemonOn("node-c"), creating(daemonsEvent("node-c")), ""},
		{"its own again", daemonOn("node-b"), again("node-b"), ""},
		{"another's again", daemonOn("node-a"), again("node-b"), "in the name of its own node only"},
		{"another's made its own", daemonOn("node-a"), again("node-a"), "immutable"},
		{"in another's name", daemonOn("node-a"), creating(daemonsEvent("node-b")), "in the name of its own node only"},
		{"with a token of no node", daemonOn(""), creating(daemonsEvent("node-a")), "needs a token that is bound to its pod"},
		{"about its own Node", daemonOn("node-c"), creating(about("node-c", "node-c")), ""},
		{"about another Node", daemonOn("node-a"), creating(about("node-a", "node-b")), "about its own Node"},
		{"one that nobody may delete", daemonOn("node-a"), creating(held), "must not have finalizers"},
		{"the operator's", operator(), creating(daemonsEvent("anything")), ""},
	})
}

func TestDaemonRollCall_OtherNode_Refused(t *testing.T) {
	start(t)
	answer := func(name string, change ...func(*v1alpha1.RollCall)) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			object := answerOf("node-a")
			object.Name = name
			for _, edit := range change {
				edit(object)
			}
			return c.Create(ctx, object, client.DryRunAll)
		}
	}
	own, yes := v1alpha1.NodeRollCall("node-a"), true
	const refusal = "must have its Node as owner"
	run(t, []attempt{
		{"of nobody", daemonOn("node-a"), answer(own, func(r *v1alpha1.RollCall) { r.OwnerReferences = nil }), refusal},
		{"of another Node", daemonOn("node-a"), answer(own, func(r *v1alpha1.RollCall) { r.OwnerReferences[0].Name = "node-b" }), refusal},
		{"of two", daemonOn("node-a"), answer(own, func(r *v1alpha1.RollCall) {
			r.OwnerReferences = append(r.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "node-a", UID: "v"})
		}), refusal},
		{"that holds its Node back", daemonOn("node-a"), answer(own, func(r *v1alpha1.RollCall) { r.OwnerReferences[0].BlockOwnerDeletion = &yes }), refusal},
		{"that nobody may delete", daemonOn("node-a"), answer(own, func(r *v1alpha1.RollCall) { r.Finalizers = []string{"example.com/mine"} }), refusal},
		{"with a label", daemonOn("node-a"), answer(own, func(r *v1alpha1.RollCall) { r.Labels = map[string]string{"a": "b"} }), refusal},
		{"of more VNIs than anybody has", daemonOn("node-a"), answer(own, func(r *v1alpha1.RollCall) {
			for i := range int32(4097) {
				r.Spec.VNIs = append(r.Spec.VNIs, i+1)
			}
		}), "4096"},
		{"its own", daemonOn("node-a"), answer(v1alpha1.NodeRollCall("node-a")), ""},
		{"another node's", daemonOn("node-a"), answer(v1alpha1.NodeRollCall("node-b")), "for its own node only"},
		{"the question", daemonOn("node-a"), answer(v1alpha1.OperatorRollCall), "for its own node only"},
		{"with a token of no node", daemonOn(""), answer(v1alpha1.NodeRollCall("node-a")), "needs a token that is bound to its pod"},
		{"the operator asks", operator(), answer(v1alpha1.OperatorRollCall), ""},
	})
}

// TestDaemonLinkReport_OtherNodeOrOversized_Refused: a stolen token says wrong things about one
// node at most, and not more than a report has room for.
func TestDaemonLinkReport_OtherNodeOrOversized_Refused(t *testing.T) {
	start(t)
	reporting := func(name string, change ...func(*v1alpha1.HostLinkReport)) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			object := &v1alpha1.HostLinkReport{
				ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-a", UID: "u"}}},
				Spec:       v1alpha1.HostLinkReportSpec{Failures: []v1alpha1.HostLinkFailure{{Device: "eth9", Reason: v1alpha1.ParentMissingReason, Message: "no eth9"}}},
			}
			for _, edit := range change {
				edit(object)
			}
			return c.Create(ctx, object, client.DryRunAll)
		}
	}
	run(t, []attempt{
		{"its own", daemonOn("node-a"), reporting("node-a"), ""},
		{"another node's", daemonOn("node-a"), reporting("node-b"), "for its own node only"},
		{"by the name of a roll call", daemonOn("node-a"), reporting("node.node-a"), "for its own node only"},
		{"of nobody", daemonOn("node-a"), reporting("node-a", func(r *v1alpha1.HostLinkReport) { r.OwnerReferences = nil }), "must have its Node as owner"},
		{
			"that nobody may delete",
			daemonOn("node-a"),
			reporting("node-a", func(r *v1alpha1.HostLinkReport) { r.Finalizers = []string{"example.com/mine"} }),
			"must have its Node as owner",
		},
		{"of too many failures", daemonOn("node-a"), reporting("node-a", func(r *v1alpha1.HostLinkReport) {
			for range v1alpha1.MaxHostLinkFailures {
				r.Spec.Failures = append(r.Spec.Failures, r.Spec.Failures[0])
			}
		}), "64"},
		{
			"of a long story",
			daemonOn("node-a"),
			reporting("node-a", func(r *v1alpha1.HostLinkReport) { r.Spec.Failures[0].Message = strings.Repeat("a", 513) }),
			"512",
		},
		{"with a token of no node", daemonOn(""), reporting("node-a"), "needs a token that is bound to its pod"},
	})
}

// answerOf returns the answer of the daemon of a node.
func answerOf(node string) *v1alpha1.RollCall {
	return &v1alpha1.RollCall{
		ObjectMeta: metav1.ObjectMeta{
			Name:            v1alpha1.NodeRollCall(node),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: "u"}},
		},
		Spec: v1alpha1.RollCallSpec{Call: "c"},
	}
}

func TestDaemonNodeCondition_OtherNode_Refused(t *testing.T) {
	admin := start(t)
	for _, name := range []string{"node-a", "node-b"} {
		create(t, admin, node(name))
	}
	condition := func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse})
	}
	zone := func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, "zone", "x") }
	note := func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, "note", "x") }
	moved := func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.66"}}
	}
	of := func(kind corev1.NodeConditionType) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue})
		}
	}
	owned := func(n *corev1.Node) {
		n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}}
	}
	pinned := func(n *corev1.Node) { n.Finalizers = []string{"example.com/mine"} }
	roomy := func(n *corev1.Node) {
		n.Status.Capacity = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100000")}
	}
	allocatable := func(n *corev1.Node) {
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100000")}
	}
	endpoint := func(n *corev1.Node) { n.Status.DaemonEndpoints.KubeletEndpoint.Port = 4444 }
	attached := func(n *corev1.Node) {
		n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "v", DevicePath: "/dev/sda"}}
	}
	info := func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v9" }
	images := func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{Names: []string{"example.com/x"}}} }
	const refusal, conditions = "conditions of its node only", "the daemon may write only these conditions: NetworkUnavailable and alioth.dev/NetworkHealthy"
	changes := []change[*corev1.Node]{
		{name: "the other condition of its own", who: daemonOn("node-a"), object: node("node-a"), edit: of(v1alpha1.NetworkHealthyCondition)},
		{name: "Ready", who: daemonOn("node-a"), object: node("node-a"), edit: of(corev1.NodeReady), refused: conditions},
		{name: "any other condition", who: daemonOn("node-a"), object: node("node-a"), edit: of("DiskPressure"), refused: conditions},
		{name: "an owner that is gone", who: daemonOn("node-a"), object: node("node-a"), edit: owned, refused: refusal},
		{name: "a finalizer", who: daemonOn("node-a"), object: node("node-a"), edit: pinned, refused: refusal},
		{name: "its capacity", who: daemonOn("node-a"), object: node("node-a"), edit: roomy, refused: "status.capacity"},
		{name: "what can be allocated", who: daemonOn("node-a"), object: node("node-a"), edit: allocatable, refused: "status.allocatable"},
		{name: "the kubelet's port", who: daemonOn("node-a"), object: node("node-a"), edit: endpoint, refused: "status.daemonEndpoints"},
		{name: "its volumes", who: daemonOn("node-a"), object: node("node-a"), edit: attached, refused: "status.volumesAttached"},
		{name: "its versions", who: daemonOn("node-a"), object: node("node-a"), edit: info, refused: "status.nodeInfo"},
		{name: "its images", who: daemonOn("node-a"), object: node("node-a"), edit: images, refused: "status.images"},
		{name: "a condition of its own", who: daemonOn("node-a"), object: node("node-a"), edit: condition},
		{name: "a condition of another", who: daemonOn("node-a"), object: node("node-b"), edit: condition, refused: "of its own node only"},
		{name: "with a token of no node", who: daemonOn(""), object: node("node-a"), edit: condition, refused: "needs a token"},
		{name: "a label of its own", who: daemonOn("node-a"), object: node("node-a"), edit: zone, refused: refusal},
		{name: "an annotation of its own", who: daemonOn("node-a"), object: node("node-a"), edit: note, refused: refusal},
		{name: "an address of its own", who: daemonOn("node-a"), object: node("node-a"), edit: moved, refused: refusal},
	}
	for i := range changes { // it may patch and nothing else
		changes[i].through, changes[i].except = "status", byUpdate
	}
	runChanges(t, append(changes,
		change[*corev1.Node]{name: "past the status", who: daemonOn("node-a"), object: node("node-a"), edit: zone, refused: "cannot"},
		change[*corev1.Node]{name: "a kubelet's labels are not its business", who: kubelet(), object: node("node-a"), through: "status", edit: func(n *corev1.Node) {
			metav1.SetMetaDataLabel(&n.ObjectMeta, "kubernetes.io/os", "linux")
		}},
	))
	run(t, []attempt{{"it deletes no Node", daemonOn("node-a"), func(ctx context.Context, c client.Client) error {
		return c.Delete(ctx, node("node-a"), client.DryRunAll)
	}, "cannot delete resource"}})
}

// TestNodeConditions_EachWriter_ChangesOnlyItsOwn has others change their own conditions beside
// those.
func TestNodeConditions_EachWriter_ChangesOnlyItsOwn(t *testing.T) {
	admin := start(t)
	create(t, admin, node("node-e"))
	healthy := node("node-e")
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(healthy), healthy); err != nil {
		t.Fatal(err)
	}
	of := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
			if status != "" {
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status})
			}
		}
	}
	before := healthy.DeepCopy()
	of(v1alpha1.NetworkHealthyCondition, corev1.ConditionFalse)(healthy)
	if err := as(t, daemonOn("node-e")).Status().Patch(t.Context(), healthy, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	const refusal = "only Alioth changes conditions alioth.dev/* of Nodes"
	through := func(name string, who user, edit func(*corev1.Node), refused, except string) change[*corev1.Node] {
		return change[*corev1.Node]{name: name, who: who, object: node("node-e"), through: "status", edit: edit, refused: refused, except: except}
	}
	runChanges(t, []change[*corev1.Node]{
		through("True by an administrator", clusterAdmin(), of(v1alpha1.NetworkHealthyCondition, corev1.ConditionTrue), refusal, byApply),
		through("removed by its kubelet", kubeletOn("node-e"), of(v1alpha1.NetworkHealthyCondition, ""), refusal, byApply),
		through("removed by an administrator, who may delete roll calls", clusterAdmin(), of(v1alpha1.NetworkHealthyCondition, ""), "", byApply),
		through("applied by an administrator", clusterAdmin(), of(v1alpha1.NetworkHealthyCondition, corev1.ConditionTrue), refusal, ""),
		through("another one by its kubelet", kubeletOn("node-e"), of("alioth.dev/Anything", corev1.ConditionTrue), refusal, byApply),
		through("True by another node's daemon", daemonOn("node-a"), of(v1alpha1.NetworkHealthyCondition, corev1.ConditionTrue), "of its own node only", byUpdate),
		through("True by its daemon", daemonOn("node-e"), of(v1alpha1.NetworkHealthyCondition, corev1.ConditionTrue), "", byUpdate),
		through("Ready by its kubelet", kubeletOn("node-e"), of(corev1.NodeReady, corev1.ConditionTrue), "", byApply),
	})
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// TestDaemonTexts_TooLong_Refused: every watcher gets them, so a stolen token must not fill the
// memory of all nodes and of the operator. The schemas bound the other reports.
func TestDaemonTexts_TooLong_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, node("texts-a"))
	create(t, admin, namespace("texts", nil))
	wordy := pod("texts", "wordy", "texts-a")
	create(t, admin, wordy)
	establish(t, admin, nodeState("texts-a"))
	object := enactment("texts-a", "p")
	establish(t, admin, object)
	who := daemonOn("texts-a")
	const bound = "1024 characters at most"
	saying := func(reason, message string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
				Type: v1alpha1.NetworkHealthyCondition, Status: corev1.ConditionFalse, Reason: reason, Message: message,
			})
		}
	}
	twice := func(n *corev1.Node) {
		saying("A", "a")(n)
		saying("B", "b")(n)
	}
	nodes := patched("status",
		change[*corev1.Node]{name: "the longest message", who: who, object: node("texts-a"), edit: saying("R", strings.Repeat("x", 1024))},
		change[*corev1.Node]{name: "a long message", who: who, object: node("texts-a"), edit: saying("R", strings.Repeat("x", 1025)), refused: bound},
		change[*corev1.Node]{name: "a message of a megabyte", who: who, object: node("texts-a"), edit: saying("R", strings.Repeat("x", 1<<20)), refused: bound},
		change[*corev1.Node]{name: "a long reason", who: who, object: node("texts-a"), edit: saying(strings.Repeat("R", 129), "x"), refused: bound},
	)
	runChanges(t, nodes)
	run(t, []attempt{{"a condition twice", who, func(ctx context.Context, c client.Client) error {
		before := node("texts-a")
		if err := admin.Get(ctx, client.ObjectKeyFromObject(before), before); err != nil {
			return fmt.Errorf("read the node: %w", err)
		}
		after := before.DeepCopy()
		twice(after)
		return mergePatch(types.MergePatchType)(ctx, target{c, "status"}, before, after)
	}, bound}})
	runChanges(t, patched(
		"status",
		change[*corev1.Pod]{name: "the longest network status", who: who, object: wordy, edit: annotate(annotations.NetworkStatusKey, strings.Repeat("x", 65536))},
		change[*corev1.Pod]{
			name:    "a longer one",
			who:     who,
			object:  wordy,
			edit:    annotate(annotations.NetworkStatusKey, strings.Repeat("x", 65537)),
			refused: "65536 characters at most",
		},
	))
	conditions := func(count, length int) []metav1.Condition {
		var list []metav1.Condition
		for i := range count {
			list = append(list, metav1.Condition{
				Type: fmt.Sprintf("C%d", i), Status: metav1.ConditionTrue, Reason: "R", Message: strings.Repeat("x", length), LastTransitionTime: metav1.Unix(1, 0),
			})
		}
		return list
	}
	for _, tc := range []struct {
		name          string
		count, length int
		refused       string
	}{
		{"the most conditions", 8, 1024, ""}, {"more of them", 9, 1, "must have at most 8 items"}, {"a long message", 1, 1025, bound},
	} {
		runChanges(t, patched("status", change[*nmstatev1beta1.NodeNetworkState]{
			name: "of a state, " + tc.name, who: who, object: nodeState("texts-a"), refused: tc.refused,
			edit: func(s *nmstatev1beta1.NodeNetworkState) { s.Status.Conditions = conditions(tc.count, tc.length) },
		}))
		runChanges(t, patched("status", change[*nmstatev1beta1.NodeNetworkConfigurationEnactment]{
			name: "of an enactment, " + tc.name, who: who, object: object, refused: tc.refused,
			edit: func(e *nmstatev1beta1.NodeNetworkConfigurationEnactment) {
				e.Status.Conditions = conditions(tc.count, tc.length)
			},
		}))
	}
	wordyEvents(t)
}

// wordyEvents: the API server bounds note, reason and action of an event, and no other text.
func wordyEvents(t *testing.T) {
	t.Helper()
	event := func(edit func(*eventsv1.Event)) *eventsv1.Event {
		e := daemonsEvent("texts-a")
		e.Name = "wordy"
		edit(e)
		return e
	}
	long := strings.Repeat("x", 1<<18)
	const refused = "an event of the daemon must have no labels"
	run(t, []attempt{
		{"an event with a label", daemonOn("texts-a"), creating(event(func(e *eventsv1.Event) { e.Labels = map[string]string{"a": "b"} })), refused},
		{"an event with an annotation", daemonOn("texts-a"), creating(event(func(e *eventsv1.Event) { e.Annotations = map[string]string{"a": "b"} })), refused},
		{"an event about a field", daemonOn("texts-a"), creating(event(func(e *eventsv1.Event) { e.Regarding.FieldPath = long })), refused},
		{"an event about a version", daemonOn("texts-a"), creating(event(func(e *eventsv1.Event) { e.Regarding.ResourceVersion = long })), refused},
		{"an event about a long name", daemonOn("texts-a"), creating(event(func(e *eventsv1.Event) { e.Regarding.Name = long })), refused},
		{
			"an event with a related object",
			daemonOn("texts-a"),
			creating(event(func(e *eventsv1.Event) { e.Related = &corev1.ObjectReference{Name: long} })),
			refused,
		},
	})
}
