// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// onVXLAN is a network on a VXLAN of the nodes' devices.
func onVXLAN(namespace, name, device string, vni int32) *danmv1.DanmNet {
	return danmNet(namespace, name, danmv1.NetworkSpec{
		NetworkID: name, NetworkType: "macvlan",
		Options: danmv1.NetworkOptions{HostDevice: device, VXLAN: vni, ContainerPrefix: "ext", CIDR: "10.100.3.0/24", Net6: "fd10:100:3::/64"},
	})
}

// Two networks have one range of addresses, each on a VXLAN between the nodes. The nodes have
// the links before the first pod, and lose them with the networks.
func TestNetworksOnVXLANsOfTheNodes(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("hostlinks"))
	first, second := e.Nodes()
	red, blue := onVXLAN(tenant.Namespace.Name, "red", "eth0", 7100), onVXLAN(tenant.Namespace.Name, "blue", "eth0", 7101)
	nowhere := onVXLAN(tenant.Namespace.Name, "nowhere", "missing0", 7102)
	for _, network := range []*danmv1.DanmNet{red, blue, nowhere} {
		e.makeNetwork(t, network)
		e.awaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	}
	for _, node := range []string{first, second} {
		e.awaitLinks(t, node, "vx_red", "vx_blue")
	}
	e.AwaitLinkCondition(t, red, true, "")
	e.AwaitLinkCondition(t, nowhere, false, "no device missing0")

	one := tenant.Pod("one", scene.OnNode(first), scene.WithInterfaces(onlyIn(tenant, "red", 1)))
	two := tenant.Pod("two", scene.OnNode(second), scene.WithInterfaces(onlyIn(tenant, "red", 2)))
	other := tenant.Pod("other", scene.OnNode(second), scene.WithInterfaces(onlyIn(tenant, "blue", 3)))
	e.runFor(t, one, two, other)
	for _, v6 := range []bool{false, true} {
		e.InPod(t, one, "ping", "-c", "1", "-W", "5", e.onDevice(t, two, "ext1", v6).String())
	}
	if out, err := e.Exec(within(t, patience), one, "ping", "-c", "1", "-W", "1", e.onDevice(t, other, "ext1", false).String()); err == nil {
		t.Errorf("a pod of another network answers: %s", out)
	}

	for _, pod := range []*corev1.Pod{one, two, other} {
		if err := e.Delete(within(t, patience), pod); err != nil {
			t.Fatal(err)
		}
	}
	for _, network := range []client.Object{red, blue} {
		if err := e.DeleteNetwork(within(t, patience), network); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range []string{first, second} {
		e.awaitLinks(t, node)
	}
}

// onlyIn lists an interface in the tenant's VPC, and one in a network with an address.
func onlyIn(tenant *scene.Tenant, network string, host int) string {
	return fmt.Sprintf(`[{"vpc":%q},{"network":%q,"ip":"10.100.3.%d","ip6":"dynamic"}]`, tenant.VPC.Name, network, host)
}

// awaitLinks waits until a node has exactly these of the links of the networks of this test.
func (e *env) awaitLinks(t *testing.T, node string, want ...string) {
	t.Helper()
	slices.Sort(want)
	err := scene.Until(within(t, patience), fmt.Sprintf("node %s to have the links %v", node, want), func(context.Context) (bool, string, error) {
		var have []string
		for line := range strings.Lines(e.OnNode(t, node, "ip", "-o", "link", "show", "type", "vxlan")) {
			if fields := strings.Fields(line); len(fields) > 1 {
				if name, _, _ := strings.Cut(strings.TrimSuffix(fields[1], ":"), "@"); name == "vx_red" || name == "vx_blue" {
					have = append(have, name)
				}
			}
		}
		slices.Sort(have)
		return slices.Equal(have, want), fmt.Sprint(have), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
