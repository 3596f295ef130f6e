// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// deviceOf returns the host end of a pod's interface.
func (e *env) deviceOf(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	dump, err := e.dump(stage.Within(t, patience), pod.Spec.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range dump.Attachments {
		if rec.Pod.UID == string(pod.UID) {
			return rec.HostIfName
		}
	}
	t.Fatalf("%s has no attachment of pod %s", pod.Spec.NodeName, pod.Name)
	return ""
}

func TestWhatSomebodyDeletedByHandIsRepaired(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("hands"))
	near, far := tenant.Pod("near", scene.OnNode(first)), tenant.Pod("far", scene.OnNode(second), probed())
	e.Run(t, near, far)
	device := e.deviceOf(t, far)
	for _, deed := range [][]string{
		{"ip", "link", "set", "dev", device, "down"},
		{"tc", "qdisc", "del", "dev", device, "clsact"},
		{"ip", "link", "del", "dev", netdev.TunnelDevice},
		{"rm", datapath.DefaultPinDir + "/alioth_addresses"},
		{"rm", "-r", datapath.DefaultPinDir + "/links"},
		{"nft", "delete", "table", "inet", "alioth"},
	} {
		e.OnNode(t, second, deed...)
	}
	e.ExpectAgreement(t)
	e.expectReach(t, near, far)
	e.expectReach(t, far, near)
	e.expectUnharmed(t, near, far)
}

func TestAPodWhoseDeviceSomebodyDeletedWorksOnceItIsMadeAnew(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("device"))
	near, far := tenant.Pod("near", scene.OnNode(first)), tenant.Pod("far", scene.OnNode(second))
	e.Run(t, near, far)
	e.OnNode(t, second, "ip", "link", "del", "dev", e.deviceOf(t, far))
	if err := e.Delete(stage.Within(t, patience), far); err != nil {
		t.Fatal(err)
	}
	again := tenant.Pod("far", scene.OnNode(second))
	e.Run(t, again)
	e.expectReach(t, near, again)
}

func TestNewPodsFollowTheMTUOfTheUnderlay(t *testing.T) {
	e := start(t)
	_, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("mtu"))
	before := e.podMTU(t, second, func(mtu int) bool { return mtu > 0 })
	e.OnNode(t, second, "ip", "link", "set", "dev", "eth0", "mtu", "1400")
	t.Cleanup(func() { e.OnNode(t, second, "ip", "link", "set", "dev", "eth0", "mtu", "1500") })
	e.podMTU(t, second, func(mtu int) bool { return mtu == before-100 })
	pod := tenant.Pod("small", scene.OnNode(second))
	e.Run(t, pod)
	if got, want := e.InPod(t, pod, "cat", "/sys/class/net/eth0/mtu"), fmt.Sprintf("%d\n", before-100); got != want {
		t.Errorf("the pod's interface has an MTU of %q, want %q", got, want)
	}
}

// podMTU waits until a node's daemon gives pods an MTU that is as wanted.
func (e *env) podMTU(t *testing.T, node string, wanted func(int) bool) int {
	t.Helper()
	var mtu int
	e.waits(t, "the daemon on "+node+" to follow the MTU", func(ctx context.Context) (bool, string, error) {
		dump, err := e.dump(ctx, node)
		mtu = dump.PodMTU
		return err == nil && wanted(mtu), fmt.Sprint(mtu), err
	})
	return mtu
}
