// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

func TestPodMTU_UnderlayChanged_Follows(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("mtu"))
	near, older := tenant.Pod("near", scene.OnNode(first)), tenant.Pod("older", scene.OnNode(second))
	e.Run(t, near, older)
	before := e.podMTU(t, second, func(mtu int) bool { return mtu > 0 })
	setMTU := func(mtu string) { e.OnNode(t, second, "ip", "link", "set", "dev", "eth0", "mtu", mtu) }
	t.Cleanup(func() {
		setMTU("1500")
		e.podMTU(t, second, func(mtu int) bool { return mtu == before })
	})
	setMTU("1400")
	e.podMTU(t, second, func(mtu int) bool { return mtu == before-100 })
	newer := tenant.Pod("newer", scene.OnNode(second))
	e.Run(t, newer)
	for _, pod := range []*corev1.Pod{older, newer} {
		e.hasMTU(t, pod, before-100)
	}
	e.expectHealthy(t, second, corev1.ConditionTrue, "", "")
	e.expectReach(t, near, newer)
	e.expectReach(t, newer, near, older)

	// Below the least MTU of the pods, which have IPv6.
	setMTU("1280")
	e.expectHealthy(t, second, corev1.ConditionFalse, v1alpha1.MTUBelowIPv6Reason, older.Namespace+"/"+older.Name)
	for _, pod := range []*corev1.Pod{older, newer} {
		e.hasMTU(t, pod, 1280)
	}
	e.expectReach(t, newer, near, older)

	setMTU("1500")
	e.expectHealthy(t, second, corev1.ConditionTrue, "", "")
	e.expectUnharmed(t, near, older, newer)
}

// hasMTU waits until a pod's interface has an MTU, in bytes.
func (e *env) hasMTU(t *testing.T, pod *corev1.Pod, mtu int) {
	t.Helper()
	e.waits(t, fmt.Sprintf("an MTU of %d in %s", mtu, pod.Name), func(context.Context) (bool, string, error) {
		got := strings.TrimSpace(e.InPod(t, pod, "cat", "/sys/class/net/eth0/mtu"))
		return got == fmt.Sprint(mtu), got, nil
	})
}

// expectHealthy waits until a node's condition about its network is as given,
// and names something.
func (e *env) expectHealthy(t *testing.T, name string, status corev1.ConditionStatus, reason, named string) {
	t.Helper()
	what := fmt.Sprintf("%s=%s %s on %s", v1alpha1.NetworkHealthyCondition, status, reason, name)
	e.waits(t, what, func(ctx context.Context) (bool, string, error) {
		node, err := e.Lab.Client().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == v1alpha1.NetworkHealthyCondition {
				as := c.Status == status && (reason == "" || c.Reason == reason) && strings.Contains(c.Message, named)
				return as, fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), nil
			}
		}
		return false, "no such condition", nil
	})
}

// podMTU waits until a node's daemon gives pods an MTU that is as wanted.
func (e *env) podMTU(t *testing.T, node string, wanted func(int) bool) int {
	t.Helper()
	var mtu int
	e.waits(t, "the daemon on "+node+" to follow the MTU", func(ctx context.Context) (bool, string, error) {
		dump, err := e.Dump(ctx, node)
		mtu = dump.PodMTU
		return err == nil && wanted(mtu), fmt.Sprint(mtu), err
	})
	return mtu
}

func TestNodeAddress_Changed_PeersFollow(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("renumbered"))
	near, far := tenant.Pod("near", scene.OnNode(first)), tenant.Pod("far", scene.OnNode(second), probed())
	e.Run(t, near, far)
	own, spare := e.Lab.Nodes()[1].IPv4, e.Lab.Topology().SpareIP(2)
	t.Cleanup(func() {
		e.renumber(t, second, spare, own)
		e.waitReach(t, near, far)
	})
	e.renumber(t, second, own, spare)
	e.waitReach(t, near, far)
	e.expectReach(t, far, near)
	later := tenant.Pod("later", scene.OnNode(second), probed())
	e.Run(t, later)
	e.expectReach(t, near, later)
	e.expectUnharmed(t, near, far)
}

// renumber gives a node another address, and waits until its Node object has it. Connections to the
// API server from the old address end a while later.
func (e *env) renumber(t *testing.T, name string, from, to netip.Addr) {
	t.Helper()
	if err := e.Lab.Renumber(stage.Within(t, patience), name, from, to); err != nil {
		t.Fatal(err)
	}
	e.waits(t, name+" to have the address "+to.String(), func(ctx context.Context) (bool, string, error) {
		node, err := e.Lab.Client().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return slices.Contains(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: to.String()}),
			fmt.Sprint(node.Status.Addresses), nil
	})
}

// waitReach waits until a pod reaches every address of another one, by every
// protocol.
func (e *env) waitReach(t *testing.T, from, to *corev1.Pod) {
	t.Helper()
	targets := scene.Targets(scene.Protocols(), scene.IPs(to)...)
	e.waits(t, fmt.Sprintf("%s to reach %s", from.Name, to.Name), func(ctx context.Context) (bool, string, error) {
		results, err := e.Ask(ctx, from, time.Second, targets...)
		for _, result := range results {
			if !result.OK {
				return false, result.Target + ": " + result.Error, err
			}
		}
		return err == nil, "", err
	})
}
