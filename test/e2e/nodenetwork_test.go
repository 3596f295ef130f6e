// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// networkPolicy is one of the desired state, a document in JSON, for a node or, with "", for
// all nodes.
func networkPolicy(name, node, desired string) *nmstatev1.NodeNetworkConfigurationPolicy {
	policy := &nmstatev1.NodeNetworkConfigurationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	policy.Spec.DesiredState = &runtime.RawExtension{Raw: []byte(desired)}
	policy.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	if node != "" {
		policy.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return policy
}

// awaitPolicy waits until a condition of a policy is true, for the generation that it has,
// with these texts in its message.
func (e *env) awaitPolicy(t *testing.T, policy *nmstatev1.NodeNetworkConfigurationPolicy, condition string, texts ...string) {
	t.Helper()
	what := fmt.Sprintf("policy %s to be %s with %q", policy.Name, condition, texts)
	err := scene.Until(within(t, patience), what, func(ctx context.Context) (bool, string, error) {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return false, "", err
		}
		found := meta.FindStatusCondition(policy.Status.Conditions, condition)
		done := found != nil && found.Status == metav1.ConditionTrue && found.ObservedGeneration == policy.Generation
		for _, text := range texts {
			done = done && strings.Contains(found.Message, text)
		}
		return done, fmt.Sprintf("%+v", policy.Status.Conditions), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitDevice waits until a node has a device, with a text in what ip tells of it, or has
// none.
func (e *env) awaitDevice(t *testing.T, node, device, text string, there bool) {
	t.Helper()
	what := fmt.Sprintf("device %s on %s with %q: %v", device, node, text, there)
	err := scene.Until(within(t, patience), what, func(context.Context) (bool, string, error) {
		seen := ""
		for line := range strings.Lines(e.OnNode(t, node, "ip", "-o", "link", "show")) {
			if strings.Contains(line, " "+device+":") {
				seen = line
			}
		}
		return (seen != "" && strings.Contains(seen, text)) == there, seen, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Nodes have a bridge while there is a policy for it: it appears on all of them, one after
// the other, is made again where somebody removes it, is shown in the node's state, changes
// with the policy, and goes with it.
func TestAPolicyGivesNodesABridgeForAsLongAsItIsThere(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	bridge := func(mtu int) string {
		return fmt.Sprintf(`{"interfaces":[{"name":"nns-br","type":"linux-bridge","state":"up","mtu":%d,"ipv4":{"enabled":true,"address":[{"ip":"192.0.2.129","prefix-length":28}]},"bridge":{"options":{"stp":{"enabled":false}},"port":[]}}]}`, mtu)
	}
	policy := networkPolicy(unique("bridge"), "", bridge(1450))
	e.Make(t, policy)
	e.awaitPolicy(t, policy, nmstatev1.AvailableCondition)
	for _, node := range []string{first, second} {
		e.awaitDevice(t, node, "nns-br", "mtu 1450", true)
		e.awaitState(t, node, `"name":"nns-br"`, true)
	}
	e.OnNode(t, first, "ip", "link", "del", "nns-br")
	e.awaitDevice(t, first, "nns-br", "mtu 1450", true)

	policy.Spec.DesiredState.Raw = []byte(bridge(1400))
	if err := e.Client.Update(within(t, patience), policy); err != nil {
		t.Fatal(err)
	}
	e.awaitPolicy(t, policy, nmstatev1.AvailableCondition)
	for _, node := range []string{first, second} {
		e.awaitDevice(t, node, "nns-br", "mtu 1400", true)
	}
	if err := e.Delete(within(t, patience), policy); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{first, second} {
		e.awaitDevice(t, node, "nns-br", "", false)
		e.awaitState(t, node, `"name":"nns-br"`, false)
		e.awaitNoEnactment(t, node, policy.Name)
	}
}

// A policy that can't be applied, and that comes first, keeps no other one from its node. One
// that only matches an interface neither makes it again nor removes it.
func TestAPolicyThatFailsKeepsNoOtherFromTheNode(t *testing.T) {
	t.Parallel()
	e := start(t)
	_, node := e.Nodes()
	impossible := networkPolicy(unique("a-impossible"), node, `{"interfaces":[{"name":"eth666","type":"ethernet","state":"up"}]}`)
	e.Make(t, impossible)
	e.awaitPolicy(t, impossible, nmstatev1.DegradedCondition, node, "eth666")
	innocent := networkPolicy(unique("innocent"), node, `{"interfaces":[{"name":"nns-inno","type":"linux-bridge","state":"up","bridge":{"port":[]}}]}`)
	e.Make(t, innocent)
	e.awaitPolicy(t, innocent, nmstatev1.AvailableCondition)
	e.awaitDevice(t, node, "nns-inno", "", true)
	e.awaitPolicy(t, impossible, nmstatev1.DegradedCondition, node, "eth666")

	e.OnNode(t, node, "ip", "link", "add", "nns-hand", "type", "bridge")
	e.awaitState(t, node, `"name":"nns-hand"`, true)
	matching := &nmstatev1.NodeNetConfPolicy{ObjectMeta: metav1.ObjectMeta{Name: unique("matching")}}
	matching.Spec.MatchRules = []nmstatev1.MatchRule{{Name: "nns-hand"}}
	matching.Spec.DesiredState = &runtime.RawExtension{Raw: []byte(`{"interfaces":[{"mtu":1400}]}`)}
	e.Make(t, matching)
	e.awaitDevice(t, node, "nns-hand", "mtu 1400", true)
	e.OnNode(t, node, "ip", "link", "del", "nns-hand")
	e.awaitState(t, node, `"name":"nns-hand"`, false)
	if err := e.Delete(within(t, patience), innocent); err != nil {
		t.Fatal(err)
	}
	e.awaitDevice(t, node, "nns-inno", "", false)
	e.awaitDevice(t, node, "nns-hand", "", false)
}

// A policy whose device is removed by hand is Degraded with the cause, and Available again once the
// device is back with what the policy desires. Its end leaves the device.
func TestAPolicyThatANodeLosesIsDegradedUntilTheRepair(t *testing.T) {
	t.Parallel()
	e := start(t)
	_, node := e.Nodes()
	e.OnNode(t, node, "ip", "link", "add", "nns-lost", "type", "dummy")
	t.Cleanup(func() { e.OnNode(t, node, "ip", "link", "del", "nns-lost") })
	e.awaitState(t, node, `"name":"nns-lost"`, true)
	policy := networkPolicy(unique("lost"), node, `{"interfaces":[{"name":"nns-lost","mtu":1400}]}`)
	e.Make(t, policy)
	e.awaitPolicy(t, policy, nmstatev1.AvailableCondition)
	e.OnNode(t, node, "ip", "link", "del", "nns-lost")
	e.awaitPolicy(t, policy, nmstatev1.DegradedCondition, node, "no longer has", "nns-lost")
	e.OnNode(t, node, "ip", "link", "add", "nns-lost", "type", "dummy")
	e.awaitDevice(t, node, "nns-lost", "mtu 1400", true)
	e.awaitPolicy(t, policy, nmstatev1.AvailableCondition)
	if err := e.Delete(within(t, patience), policy); err != nil {
		t.Fatal(err)
	}
	e.awaitNoEnactment(t, node, policy.Name)
	e.awaitDevice(t, node, "nns-lost", "mtu 1500", true)
}

// awaitState waits until the reported state of a node has a text, or not.
func (e *env) awaitState(t *testing.T, node, text string, there bool) {
	t.Helper()
	state := &nmstatev1beta1.NodeNetworkState{}
	err := scene.Until(within(t, patience), fmt.Sprintf("the state of %s to have %s: %v", node, text, there), func(ctx context.Context) (bool, string, error) {
		if err := e.Client.Get(ctx, client.ObjectKey{Name: node}, state); err != nil {
			return false, "", err
		}
		current := ""
		if state.Status.CurrentState != nil {
			current = string(state.Status.CurrentState.Raw)
		}
		return strings.Contains(current, text) == there, current, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitNoEnactment waits until a policy has left nothing of itself on a node.
func (e *env) awaitNoEnactment(t *testing.T, node, policy string) {
	t.Helper()
	name := nmstatev1beta1.EnactmentName(node, nmstatev1.NodeNetworkConfigurationPolicyKind, policy)
	enactment := &nmstatev1beta1.NodeNetworkConfigurationEnactment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := e.WaitGone(within(t, patience), enactment); err != nil {
		t.Fatal(err)
	}
}

// A policy that takes a device from what uses it is refused with its users, and one with an
// unknown field with the field's path. The node stays as it is.
func TestAPolicyThatWouldHarmANodeIsRefused(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, _ := e.Nodes()
	before := e.OnNode(t, first, "ip", "-o", "link", "show", "eth0")

	down := networkPolicy(unique("down"), first, `{"interfaces":[{"name":"eth0","type":"ethernet","state":"down"}]}`)
	e.Make(t, down)
	e.awaitPolicy(t, down, nmstatev1.DegradedCondition, first, "interfaces[0].state", "uplink")
	if err := e.Delete(within(t, patience), down); err != nil {
		t.Fatal(err)
	}
	narrow := networkPolicy(unique("narrow"), first, `{"interfaces":[{"name":"eth0","type":"ethernet","mtu":1280}]}`)
	e.Make(t, narrow)
	e.awaitPolicy(t, narrow, nmstatev1.DegradedCondition, first, "eth0", "tunnel")
	if err := e.Delete(within(t, patience), narrow); err != nil {
		t.Fatal(err)
	}

	unknown := networkPolicy(unique("unknown"), first, `{"interfaces":[{"name":"nns-x","type":"linux-bridge","state":"up","colour":"red"}]}`)
	e.Make(t, unknown)
	e.awaitPolicy(t, unknown, nmstatev1.DegradedCondition, first, "colour")
	if after := e.OnNode(t, first, "ip", "-o", "link", "show", "eth0"); after != before {
		t.Errorf("the device was\n%s and is\n%s", before, after)
	}
	e.awaitDevice(t, first, "nns-x", "", false)
}
