// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/chart"
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

func release(ip string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Delete(ctx, address(ip, ""), client.DryRunAll)
	}
}

func assert(ip, node string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, address(ip, node), client.DryRunAll)
	}
}

func TestDaemonReleasesAddressesOfItsOwnNodeOnly(t *testing.T) {
	admin := start(t)
	create(t, admin, address("10.1.0.1", "node-a"))
	create(t, admin, address("10.1.0.2", "node-b"))
	run(t, []attempt{
		{"its own", daemonOn("node-a"), release("10.1.0.1"), ""},
		{"another node's", daemonOn("node-a"), release("10.1.0.2"), "of its own node only"},
		{"with a token of no node", daemonOn(""), release("10.1.0.1"), "needs a token that is bound to its pod"},
		{"a kubelet has no right", kubelet("node-a"), release("10.1.0.1"), "cannot delete resource"},
		{"the operator is not held to a node", operator(), release("10.1.0.2"), ""},
		{"it asserts one of its own", daemonOn("node-a"), assert("10.1.0.3", "node-a"), ""},
		{"it asserts another node's", daemonOn("node-a"), assert("10.1.0.3", "node-b"), "of its own node only"},
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

// TestDaemonsTokenNamesItsNode shows with a token as the kubelet gets it that
// the node's name arrives where the policy looks for it.
func TestDaemonsTokenNamesItsNode(t *testing.T) {
	admin := start(t)
	create(t, admin, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "token-node"}})
	create(t, admin, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: chart.Namespace, Name: "alioth-cnid"}})
	daemon := pod(chart.Namespace, "alioth-cnid-x", "token-node")
	daemon.Spec.ServiceAccountName = "alioth-cnid"
	create(t, admin, daemon)
	create(t, admin, address("10.2.0.1", "token-node"))
	create(t, admin, address("10.2.0.2", "node-b"))

	config := shared.server.Config(t)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: daemon.Name, UID: daemon.UID},
	}}
	token, err := kubernetes.NewForConfigOrDie(config).CoreV1().ServiceAccounts(chart.Namespace).
		CreateToken(t.Context(), "alioth-cnid", request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, &rest.Config{Host: config.Host, TLSClientConfig: config.TLSClientConfig, BearerToken: token.Status.Token})
	if err := release("10.2.0.1")(t.Context(), c); err != nil {
		t.Errorf("its own address: %v", err)
	}
	if err := wantRefused(release("10.2.0.2")(t.Context(), c), "the daemon of node token-node"); err != nil {
		t.Errorf("another node's address: %v", err)
	}
}

func TestDaemonWritesConditionsOfItsOwnNodeOnly(t *testing.T) {
	admin := start(t)
	for _, name := range []string{"node-a", "node-b"} {
		create(t, admin, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	patchNode := func(name string, edit func(*corev1.Node)) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			node := new(corev1.Node)
			if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
				return fmt.Errorf("read the node: %w", err)
			}
			before := node.DeepCopy()
			edit(node)
			return c.Status().Patch(ctx, node, client.StrategicMergeFrom(before), &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
		}
	}
	condition := func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse})
	}
	run(t, []attempt{
		{"a condition of its own", daemonOn("node-a"), patchNode("node-a", condition), ""},
		{"a condition of another", daemonOn("node-a"), patchNode("node-b", condition), "of its own node only"},
		{"with a token of no node", daemonOn(""), patchNode("node-a", condition), "needs a token"},
		{"a label of its own", daemonOn("node-a"), patchNode("node-a", func(n *corev1.Node) {
			metav1.SetMetaDataLabel(&n.ObjectMeta, "zone", "x")
		}), "conditions of its node only"},
		{"an address of its own", daemonOn("node-a"), patchNode("node-a", func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.66"}}
		}), "conditions of its node only"},
		{"a kubelet's labels are not its business", kubelet("node-a"), patchNode("node-a", func(n *corev1.Node) {
			metav1.SetMetaDataLabel(&n.ObjectMeta, "kubernetes.io/os", "linux")
		}), ""},
	})
}
