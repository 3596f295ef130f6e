// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// awaitDevice waits until a node has a device, with a text in the output of ip about it, or does
// not have the device.
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

// Nodes have a bridge while there is a policy for it: it appears on all of them, one after the
// other, is made again where somebody removes it, is shown in the node's state, changes with the
// policy, and goes with it.
func TestNodeNetworkPolicy_Bridge_PresentWhilePolicyExists(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	bridge := func(mtu int) string {
		return fmt.Sprintf(
			`{"interfaces":[{"name":"nns-br","type":"linux-bridge","state":"up","mtu":%d,"ipv4":{"enabled":true,"address":[{"ip":"192.0.2.129","prefix-length":28}]},"bridge":{"options":{"stp":{"enabled":false}},"port":[]}}]}`,
			mtu,
		)
	}
	policy := stage.NetworkPolicy(unique("bridge"), "", bridge(1450))
	e.Make(t, policy)
	e.AwaitPolicy(t, policy, nmstatev1.AvailableCondition)
	for _, node := range []string{first, second} {
		e.awaitDevice(t, node, "nns-br", "mtu 1450", true)
		e.AwaitState(t, node, `"name":"nns-br"`, true)
	}
	e.OnNode(t, first, "ip", "link", "del", "nns-br")
	e.awaitDevice(t, first, "nns-br", "mtu 1450", true)

	policy.Spec.DesiredState.Raw = []byte(bridge(1400))
	if err := e.Client.Update(within(t, patience), policy); err != nil {
		t.Fatal(err)
	}
	e.AwaitPolicy(t, policy, nmstatev1.AvailableCondition)
	for _, node := range []string{first, second} {
		e.awaitDevice(t, node, "nns-br", "mtu 1400", true)
	}
	if err := e.Delete(within(t, patience), policy); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{first, second} {
		e.awaitDevice(t, node, "nns-br", "", false)
		e.AwaitState(t, node, `"name":"nns-br"`, false)
		e.AwaitNoEnactment(t, node, policy.Name)
	}
}

// A policy that can't be applied, and that comes first, keeps no other one from its node. A policy
// that only matches an interface neither makes it again nor removes it.
func TestNodeNetworkPolicy_FailingFirst_OthersApplied(t *testing.T) {
	t.Parallel()
	e := start(t)
	_, node := e.Nodes()
	impossible := stage.NetworkPolicy(unique("a-impossible"), node, `{"interfaces":[{"name":"eth666","type":"ethernet","state":"up"}]}`)
	e.Make(t, impossible)
	e.AwaitPolicy(t, impossible, nmstatev1.DegradedCondition, node, "eth666")
	innocent := stage.NetworkPolicy(unique("innocent"), node, `{"interfaces":[{"name":"nns-inno","type":"linux-bridge","state":"up","bridge":{"port":[]}}]}`)
	e.Make(t, innocent)
	e.AwaitPolicy(t, innocent, nmstatev1.AvailableCondition)
	e.awaitDevice(t, node, "nns-inno", "", true)
	e.AwaitPolicy(t, impossible, nmstatev1.DegradedCondition, node, "eth666")

	e.OnNode(t, node, "ip", "link", "add", "nns-hand", "type", "bridge")
	e.AwaitState(t, node, `"name":"nns-hand"`, true)
	matching := &nmstatev1.NodeNetConfPolicy{ObjectMeta: metav1.ObjectMeta{Name: unique("matching")}}
	matching.Spec.MatchRules = []nmstatev1.MatchRule{{Name: "nns-hand"}}
	matching.Spec.DesiredState = &runtime.RawExtension{Raw: []byte(`{"interfaces":[{"mtu":1400}]}`)}
	e.Make(t, matching)
	e.awaitDevice(t, node, "nns-hand", "mtu 1400", true)
	e.OnNode(t, node, "ip", "link", "del", "nns-hand")
	e.AwaitState(t, node, `"name":"nns-hand"`, false)
	if err := e.Delete(within(t, patience), innocent); err != nil {
		t.Fatal(err)
	}
	e.awaitDevice(t, node, "nns-inno", "", false)
	e.awaitDevice(t, node, "nns-hand", "", false)
}

// A policy whose device is removed by hand is Degraded with the cause, and Available again once the
// device is back with its desired settings. Its end leaves the device.
func TestNodeNetworkPolicy_DeviceRemoved_DegradedUntilRepair(t *testing.T) {
	t.Parallel()
	e := start(t)
	_, node := e.Nodes()
	e.OnNode(t, node, "ip", "link", "add", "nns-lost", "type", "bridge")
	t.Cleanup(func() { e.OnNode(t, node, "ip", "link", "del", "nns-lost") })
	e.AwaitState(t, node, `"name":"nns-lost"`, true)
	policy := stage.NetworkPolicy(unique("lost"), node, `{"interfaces":[{"name":"nns-lost","mtu":1400}]}`)
	e.Make(t, policy)
	e.AwaitPolicy(t, policy, nmstatev1.AvailableCondition)
	e.OnNode(t, node, "ip", "link", "del", "nns-lost")
	e.AwaitPolicy(t, policy, nmstatev1.DegradedCondition, node, "no longer has", "nns-lost")
	e.OnNode(t, node, "ip", "link", "add", "nns-lost", "type", "bridge")
	e.awaitDevice(t, node, "nns-lost", "mtu 1400", true)
	e.AwaitPolicy(t, policy, nmstatev1.AvailableCondition)
	if err := e.Delete(within(t, patience), policy); err != nil {
		t.Fatal(err)
	}
	e.AwaitNoEnactment(t, node, policy.Name)
	e.awaitDevice(t, node, "nns-lost", "mtu 1500", true)
}

// A policy that takes a device from its users is refused with the users' names. A policy with an
// unknown field is refused with the field's path. The node stays as it is.
func TestNodeNetworkPolicy_HarmsNode_Refused(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, _ := e.Nodes()
	before := e.OnNode(t, first, "ip", "-o", "link", "show", "eth0")

	down := stage.NetworkPolicy(unique("down"), first, `{"interfaces":[{"name":"eth0","type":"ethernet","state":"down"}]}`)
	e.Make(t, down)
	e.AwaitPolicy(t, down, nmstatev1.DegradedCondition, first, "interfaces[0].state", "uplink")
	if err := e.Delete(within(t, patience), down); err != nil {
		t.Fatal(err)
	}
	narrow := stage.NetworkPolicy(unique("narrow"), first, `{"interfaces":[{"name":"eth0","type":"ethernet","mtu":1280}]}`)
	e.Make(t, narrow)
	e.AwaitPolicy(t, narrow, nmstatev1.DegradedCondition, first, "eth0", "tunnel")
	if err := e.Delete(within(t, patience), narrow); err != nil {
		t.Fatal(err)
	}

	unknown := stage.NetworkPolicy(unique("unknown"), first, `{"interfaces":[{"name":"nns-x","type":"linux-bridge","state":"up","colour":"red"}]}`)
	e.Make(t, unknown)
	e.AwaitPolicy(t, unknown, nmstatev1.DegradedCondition, first, "colour")
	if after := e.OnNode(t, first, "ip", "-o", "link", "show", "eth0"); after != before {
		t.Errorf("the device was\n%s and is\n%s", before, after)
	}
	e.awaitDevice(t, first, "nns-x", "", false)
}
