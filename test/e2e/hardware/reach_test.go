// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// Each pod has an interface in its tenant's VPC, and one on the adapter of the virtual machine or
// on the other node's interface of the same segment. Tunnel and segment both lead from one node to
// the other.
func TestPods_VPCAndAdapter_ReachAcrossNodes(t *testing.T) {
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("machine"))
	e.network(t, tenant, "wire", "macvlan", danmv1.NetworkOptions{
		HostDevice: device, CIDR: "10.115.1.0/24", Net6: "fd10:115:1::/64",
	})
	wired := func(ip int) scene.PodOption {
		return interfaces(tenant, fmt.Sprintf(`{"network":"wire","ip":"10.115.1.%d","ip6":"dynamic"}`, ip))
	}
	onGuest := tenant.Pod("on-guest", scene.OnNode(e.guest()), wired(10))
	beside := tenant.Pod("beside", scene.OnNode(e.guest()), wired(11))
	elsewhere := tenant.Pod("elsewhere", scene.OnNode(e.usual()), wired(12))
	e.RunFor(t, onGuest, beside, elsewhere)
	for _, pair := range [][2]*corev1.Pod{{onGuest, elsewhere}, {elsewhere, onGuest}, {onGuest, beside}} {
		from, to := pair[0], pair[1]
		e.ExpectAnswers(t, from, stage.WantPod(to))
		for _, v6 := range []bool{false, true} {
			e.ping(t, from, e.OnDevice(t, to, "wire1", v6))
		}
	}
	if parent := e.InNetNS(t, onGuest, "ip", "-o", "-d", "link", "show", "wire1"); parent == "" {
		t.Error("the pod has no interface of its network")
	}
}

// ping requires that an address answers a pod.
func (e *env) ping(t *testing.T, from *corev1.Pod, to netip.Addr) {
	t.Helper()
	e.InPod(t, from, "ping", "-c", "1", "-W", "10", to.String())
}

// network makes a network of a tenant for the time of a test, whose interfaces begin with
// its name, and waits until it is Ready.
func (e *env) network(t *testing.T, tenant *scene.Tenant, name, kind string, options danmv1.NetworkOptions) *danmv1.DanmNet {
	t.Helper()
	options.ContainerPrefix = name
	network := &danmv1.DanmNet{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: name},
		Spec:       danmv1.NetworkSpec{NetworkID: name, NetworkType: kind, Options: options},
	}
	e.MakeNetwork(t, network)
	e.AwaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	return network
}

// interfaces lists an interface in the tenant's VPC, and others after it.
func interfaces(tenant *scene.Tenant, others ...string) scene.PodOption {
	list := append([]string{fmt.Sprintf(`{"vpc":%q}`, tenant.VPC.Name)}, others...)
	return scene.WithInterfaces("[" + strings.Join(list, ",") + "]")
}
