// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// Each pod has an interface in its tenant's VPC, and one on the adapter of the virtual
// machine or on the other node's interface of the same segment. Tunnel and segment both
// lead from one node to the other.
func TestPodsOfBothNodesReachEachOtherInTheirVPCAndOnTheAdapter(t *testing.T) {
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("machine"))
	network := &danmv1.DanmNet{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: "wire"},
		Spec: danmv1.NetworkSpec{NetworkID: "wire", NetworkType: "macvlan", Options: danmv1.NetworkOptions{
			HostDevice: device, ContainerPrefix: "ext", CIDR: "10.115.1.0/24", Net6: "fd10:115:1::/64",
		}},
	}
	e.MakeNetwork(t, network)
	e.AwaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	interfaces := func(ip int) scene.PodOption {
		return scene.WithInterfaces(fmt.Sprintf(`[{"vpc":"%s"},{"network":"wire","ip":"10.115.1.%d","ip6":"dynamic"}]`, tenant.VPC.Name, ip))
	}
	onGuest := tenant.Pod("on-guest", scene.OnNode(e.guest()), interfaces(10))
	beside := tenant.Pod("beside", scene.OnNode(e.guest()), interfaces(11))
	elsewhere := tenant.Pod("elsewhere", scene.OnNode(e.usual()), interfaces(12))
	e.RunFor(t, onGuest, beside, elsewhere)
	for _, pair := range [][2]*corev1.Pod{{onGuest, elsewhere}, {elsewhere, onGuest}, {onGuest, beside}} {
		from, to := pair[0], pair[1]
		e.ExpectAnswers(t, from, stage.WantPod(to))
		for _, v6 := range []bool{false, true} {
			e.ping(t, from, e.OnDevice(t, to, "ext1", v6))
		}
	}
	if parent := e.InNetNS(t, onGuest, "ip", "-o", "-d", "link", "show", "ext1"); parent == "" {
		t.Error("the pod has no interface of its network")
	}
}

// ping requires that an address answers a pod.
func (e *env) ping(t *testing.T, from *corev1.Pod, to netip.Addr) {
	t.Helper()
	e.InPod(t, from, "ping", "-c", "1", "-W", "10", to.String())
}
