// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

func assert(ip, node string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, address(ip, node), client.DryRunAll)
	}
}

func TestDaemonWritesAddressesOfItsOwnNodeOnly(t *testing.T) {
	admin := start(t)
	create(t, admin, address("10.1.0.1", "node-a"))
	create(t, admin, address("10.1.0.2", "node-b"))
	own := address("10.1.0.4", "node-a")
	own.Spec.Holder = v1alpha1.AddressHolder{Kind: v1alpha1.HolderNode, Name: "node-a", UID: "u"}
	attempts := []attempt{
		{"its own", daemonOn("node-a"), release(admin, "10.1.0.1"), ""},
		{"another node's", daemonOn("node-a"), release(admin, "10.1.0.2"), "of its own node only"},
		{"with a token of no node", daemonOn(""), release(admin, "10.1.0.1"), "needs a token that is bound to its pod"},
		{"a kubelet has no right", kubelet(), release(admin, "10.1.0.1"), "forbidden"},
		{"the operator is not held to a node", operator(), release(admin, "10.1.0.2"), ""},
		{"all at once", daemonOn("node-a"), func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, &v1alpha1.Address{}, client.DryRunAll)
		}, "cannot deletecollection"},
	}
	for _, c := range []struct {
		name    string
		who     user
		object  *v1alpha1.Address
		refused string
	}{
		{"it asserts one of its own", daemonOn("node-a"), address("10.1.0.3", "node-a"), ""},
		{"it asserts another node's", daemonOn("node-a"), address("10.1.0.3", "node-b"), "of its own node only"},
		{"it asserts with a token of no node", daemonOn(""), address("10.1.0.3", "node-a"), "needs a token that is bound to its pod"},
		{"it asserts the node's own", daemonOn("node-a"), own, "of pods only"},
		{"the operator claims for any node", operator(), address("10.1.0.3", "node-b"), ""},
	} {
		attempts = append(attempts, attempt{c.name, c.who, creating(c.object), c.refused})
	}
	run(t, attempts)
	runChanges(t, []change[*v1alpha1.Address]{
		{name: "it changes none", who: daemonOn("node-a"), object: address("10.1.0.1", ""), edit: func(a *v1alpha1.Address) { a.Labels = map[string]string{"a": "b"} }, refused: "cannot"},
		{name: "nor does the operator", who: operator(), object: address("10.1.0.1", ""), edit: func(a *v1alpha1.Address) { a.Labels = map[string]string{"a": "b"} }, refused: "cannot"},
	})
}

func daemonsEvent(node string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "said." + node},
		EventTime:  metav1.NewMicroTime(time.Unix(1, 0)), ReportingController: "alioth.dev/alioth-cnid", ReportingInstance: node,
		Action: "Attach", Reason: "AddressLost", Type: corev1.EventTypeWarning,
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "p"},
	}
}

func TestDaemonsEventsNameTheirNode(t *testing.T) {
	admin := start(t)
	create(t, admin, daemonsEvent("node-a"))
	create(t, admin, daemonsEvent("node-b"))
	again := func(instance string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			text := []byte(`{"reportingInstance": "` + instance + `", "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}`)
			return target{Client: c}.patch(ctx, daemonsEvent("node-b"), types.MergePatchType, text)
		}
	}
	run(t, []attempt{
		{"its own", daemonOn("node-c"), creating(daemonsEvent("node-c")), ""},
		{"its own again", daemonOn("node-b"), again("node-b"), ""},
		{"another's again", daemonOn("node-a"), again("node-b"), "in the name of its own node only"},
		{"another's made its own", daemonOn("node-a"), again("node-a"), "immutable"},
		{"in another's name", daemonOn("node-a"), creating(daemonsEvent("node-b")), "in the name of its own node only"},
		{"with a token of no node", daemonOn(""), creating(daemonsEvent("node-a")), "needs a token that is bound to its pod"},
		{"the operator's", operator(), creating(daemonsEvent("anything")), ""},
	})
}

func TestDaemonAnswersForItsOwnNodeOnly(t *testing.T) {
	start(t)
	answer := func(name string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, &v1alpha1.RollCall{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RollCallSpec{Call: "c"},
			}, client.DryRunAll)
		}
	}
	run(t, []attempt{
		{"its own", daemonOn("node-a"), answer(v1alpha1.NodeRollCall("node-a")), ""},
		{"another node's", daemonOn("node-a"), answer(v1alpha1.NodeRollCall("node-b")), "for its own node only"},
		{"the question", daemonOn("node-a"), answer(v1alpha1.OperatorRollCall), "for its own node only"},
		{"with a token of no node", daemonOn(""), answer(v1alpha1.NodeRollCall("node-a")), "needs a token that is bound to its pod"},
		{"the operator asks", operator(), answer(v1alpha1.OperatorRollCall), ""},
	})
}

func TestDaemonWritesConditionsOfItsOwnNodeOnly(t *testing.T) {
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
	const refusal = "conditions of its node only"
	changes := []change[*corev1.Node]{
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

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
