// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// The kinds of policies that kubernetes-nmstate has examples of become Available on a node, with
// leases of a real server. So do their changes, and with the policies goes all that they did.
func TestNmstatePolicies_EachKind_AppliedChangedRemoved(t *testing.T) {
	e := start(t)
	e.connect(t)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			if k.by != "" {
				t.Cleanup(func() { e.onGuest(t, k.undo) })
				e.onGuest(t, k.by)
			}
			if k.reported != "" {
				e.AwaitState(t, e.guest(), k.reported, true)
			}
			before := e.lookAtNetwork(t)
			policy := e.policyOf(t, k)
			e.Make(t, policy)
			e.AwaitPolicy(t, policy, nmstatev1.AvailableCondition)
			e.expectOnGuest(t, k.shows)

			policy.Spec.DesiredState.Raw = inJSON(t, k.changed)
			if err := e.Client.Update(stage.Within(t, stage.Patience), policy); err != nil {
				t.Fatal(err)
			}
			e.AwaitPolicy(t, policy, nmstatev1.AvailableCondition)
			e.expectOnGuest(t, k.then)

			e.end(t, policy)
			e.awaitNetwork(t, before)
		})
	}
}

// policyOf returns the policy of a kind for the virtual machine.
func (e *env) policyOf(t *testing.T, k kind) *nmstatev1.NodeNetworkConfigurationPolicy {
	t.Helper()
	policy := stage.NetworkPolicy(stage.Unique("kind"), e.guest(), string(inJSON(t, k.desired)))
	policy.Spec.Capture = k.capture
	if k.selects != "" {
		policy.Spec.NodeSelector = map[string]string{k.selects: ""}
		e.label(t, k.selects)
	}
	return policy
}

// label gives the virtual machine a label without a value for the time of a test.
func (e *env) label(t *testing.T, name string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.guest()}}
	patch := func(value string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stage.Patience)
		defer cancel()
		text := []byte(`{"metadata":{"labels":{"` + name + `":` + value + `}}}`)
		if err := e.Client.Patch(ctx, node, client.RawPatch("application/merge-patch+json", text)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { patch("null") })
	patch(`""`)
}

// end deletes a policy, and waits until nothing of it is left.
func (e *env) end(t *testing.T, policy *nmstatev1.NodeNetworkConfigurationPolicy) {
	t.Helper()
	if err := e.Delete(stage.Within(t, stage.Patience), policy); err != nil {
		t.Fatal(err)
	}
	e.AwaitNoEnactment(t, e.guest(), policy.Name)
}

// expectOnGuest waits until each of the shell's lines succeeds on the virtual machine.
func (e *env) expectOnGuest(t *testing.T, lines []string) {
	t.Helper()
	for _, line := range lines {
		e.awaitOnGuest(t, line, line)
	}
}

// until waits until look returns true; seen is for the error.
func (e *env) until(t *testing.T, what string, look func() (done bool, seen string)) {
	t.Helper()
	err := scene.Until(stage.Within(t, stage.Patience), what, func(context.Context) (bool, string, error) {
		done, seen := look()
		return done, seen, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func inJSON(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Open vSwitch is refused, and the message names the type to use. The node is as before.
func TestOpenVSwitchBridge_Policy_RefusedWithType(t *testing.T) {
	e := start(t)
	e.connect(t)
	before := e.lookAtNetwork(t)
	for _, desired := range []string{
		`interfaces: [{name: br1, type: ovs-bridge, state: up, bridge: {port: [{name: eth1}]}}]`,
		`interfaces: [{name: ovs0, type: ovs-interface, state: up, ipv4: {enabled: true, dhcp: true}}]`,
	} {
		policy := stage.NetworkPolicy(stage.Unique("ovs"), e.guest(), string(inJSON(t, desired)))
		e.Make(t, policy)
		e.AwaitPolicy(t, policy, nmstatev1.DegradedCondition, "interfaces[0].type", "linux-bridge")
		e.end(t, policy)
	}
	e.awaitNetwork(t, before)
}

// A lease that a policy asks for comes also if the daemon is killed before there is one. It stays
// through another kill, although no server answers then.
func TestPolicyLease_DaemonKilled_Kept(t *testing.T) {
	e := start(t)
	e.connect(t)
	before := e.lookAtNetwork(t)
	server := func(signal string) { e.onGuest(t, "kill -"+signal+" $(cat /run/far.pid)") }
	server("STOP")
	t.Cleanup(func() { server("CONT") })
	policy := stage.NetworkPolicy(stage.Unique("killed"), e.guest(), string(inJSON(t, leaseOnEth1)))
	e.Make(t, policy)
	e.awaitOnGuest(t, "the client of eth1 to be wanted", `grep '"eth1"' /var/lib/alioth/nmstate/automatic.json`)
	e.killDaemon(t)
	server("CONT")
	e.AwaitPolicy(t, policy, nmstatev1.AvailableCondition)
	lease := e.onGuest(t, leaseOf("eth1", untagged))

	server("STOP")
	e.killDaemon(t)
	if now := e.onGuest(t, leaseOf("eth1", untagged)); now != lease {
		t.Errorf("eth1 had %s and has %s", lease, now)
	}
	server("CONT")
	e.AwaitPolicy(t, policy, nmstatev1.AvailableCondition)
	e.end(t, policy)
	e.awaitNetwork(t, before)
}

// killDaemon kills the daemon of the virtual machine, and waits until another one serves.
func (e *env) killDaemon(t *testing.T) {
	t.Helper()
	restarts := func() (count int32, ready bool) {
		pod, err := e.Lab.DaemonPod(stage.Within(t, stage.Patience), e.guest())
		if err != nil || len(pod.Status.ContainerStatuses) == 0 {
			return 0, false
		}
		status := pod.Status.ContainerStatuses[0]
		return status.RestartCount, status.Ready
	}
	was, _ := restarts()
	if err := e.Lab.KillDaemon(stage.Within(t, stage.Patience), e.guest()); err != nil {
		t.Fatal(err)
	}
	e.until(t, "the daemon to serve again", func() (bool, string) {
		count, ready := restarts()
		return count > was && ready, fmt.Sprintf("%d restarts, ready: %t", count, ready)
	})
}
