// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// mac returns the address of a pod's interface, as the operator decided it.
func mac(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	return stage.MAC(t, pod)
}

// vni returns the network identifier of a VPC.
func (e *env) vni(t *testing.T, vpc string) string {
	t.Helper()
	object := &v1alpha1.VPC{}
	if err := e.Client.Get(within(t, patience), types.NamespacedName{Name: vpc}, object); err != nil {
		t.Fatal(err)
	}
	if object.Status.VNI == 0 {
		t.Fatalf("VPC %s has no VNI", vpc)
	}
	return strconv.Itoa(int(object.Status.VNI))
}

func TestPacket_ForgedSource_DroppedAndCounted(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("forger"))
	forger := tenant.Pod("forger", scene.OnNode(first))
	victims := map[string]*corev1.Pod{
		"same node": tenant.Pod("near", scene.OnNode(first)), "other node": tenant.Pod("far", scene.OnNode(second)),
	}
	e.Run(t, forger, victims["same node"], victims["other node"])
	dropped := e.dropsOf(first, tenant.VPC.Name)

	for place, victim := range victims {
		e.awaitReach(t, forger, true, scene.Target("tcp", scene.IP(victim, false))) // each node knows the other's pod
		for _, v6 := range []bool{false, true} {
			own, target := scene.IP(forger, v6), scene.IP(victim, v6)
			neighbour := target.Next().Next().Next()
			cases := map[string]struct{ source, mac, counter string }{
				"its own addresses":    {own.String(), mac(t, forger), ""},
				"another address":      {neighbour.String(), mac(t, forger), "spoofed_ip"},
				"the target's address": {target.String(), mac(t, forger), "spoofed_ip"},
				"another MAC":          {own.String(), "02:00:00:00:be:ef", "spoofed_mac"},
				"the target's MAC":     {own.String(), mac(t, victim), "spoofed_mac"},
			}
			for _, name := range sortedKeys(cases) {
				tt := cases[name]
				t.Run(fmt.Sprintf("%s to a pod on the %s over %s", name, place, family(v6)), func(t *testing.T) {
					text := unique("raw")
					before := dropped(t)
					e.InPod(t, forger, scene.Tool, "raw", "frame", "--source", tt.source, "--source-mac", tt.mac,
						"--target", target.String(), "--text", text, "--count", "5")
					if tt.counter == "" {
						e.waitSaw(t, victim, text)
						return
					}
					e.waitCounted(t, dropped, before, tt.counter)
					e.expectNeverSaw(t, victim, text)
				})
			}
		}
	}
}

func family(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}

// waitSaw waits until a pod's server got a message with that text.
func (e *env) waitSaw(t *testing.T, pod *corev1.Pod, text string) {
	t.Helper()
	err := scene.Until(within(t, answerTime), pod.Name+" to get "+text, func(context.Context) (bool, string, error) {
		return e.saw(t, pod, text), "", nil
	})
	if err != nil {
		t.Errorf("a well-formed packet did not arrive: %v", err)
	}
}

// vxlanTo returns the arguments of a packet to a pod of the given VNI, as a node
// would send it.
func vxlanTo(node netip.Addr, vni string, from, to netip.Addr, text string) []string {
	return []string{
		"raw", "vxlan", "--node", node.String(), "--vni", vni,
		"--source", from.String(), "--target", to.String(), "--text", text, "--count", "5",
	}
}

func TestTunnelPacket_SenderNotNode_ReachesNothing(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	blue, red := e.Tenant(t, stage.Overlapping("blue")), e.Tenant(t, scene.TenantSpec{
		Name: "red", Egress: v1alpha1.EgressMasquerade,
		CIDRs: []string{"10.20.0.0/16"}, Subnets: []scene.Range{{Name: "net1", CIDRs: []string{"10.20.1.0/24"}}},
	})
	victim, peer := blue.Pod("victim", scene.OnNode(first)), blue.Pod("peer", scene.OnNode(second))
	near, far := red.Pod("near", scene.OnNode(first)), red.Pod("far", scene.OnNode(second))
	e.Run(t, victim, peer, near, far)
	vni := e.vni(t, blue.VPC.Name)
	node := e.Lab.Nodes()[0]
	packet := func(text string, target netip.Addr) []string {
		return vxlanTo(target, vni, scene.IP(peer, false), scene.IP(victim, false), text)
	}
	dropped := e.dropsOf(first, blue.VPC.Name)
	fromNode := e.hostThatPassesFor(t, e.Lab.Nodes()[1])
	e.awaitReach(t, peer, true, scene.Target("tcp", scene.IP(victim, false))) // the victim's node knows the peer

	t.Run("a packet with a node's address arrives, so the crafted packets are well-formed", func(t *testing.T) {
		text := unique("raw")
		err := scene.Until(within(t, answerTime), victim.Name+" to get "+text, func(context.Context) (bool, string, error) {
			fromNode(t, packet(text, node.IPv4)...) // again, because the host may not know its neighbour yet
			return e.saw(t, victim, text), "", nil
		})
		if err != nil {
			t.Errorf("a well-formed packet did not arrive: %v", err)
		}
	})
	for name, pod := range map[string]*corev1.Pod{"the same node": near, "another node": far} {
		t.Run("from a tenant's pod on "+name, func(t *testing.T) {
			text := unique("raw")
			dropped := e.dropsOf(pod.Spec.NodeName, red.VPC.Name)
			before := dropped(t)
			_, err := e.Exec(within(t, patience), pod, append([]string{scene.Tool}, packet(text, node.IPv4)...)...)
			if err != nil {
				t.Logf("the pod's own kernel refused: %v", err)
			}
			e.waitCounted(t, dropped, before, "egress_")
			e.expectNeverSaw(t, victim, text)
		})
	}
	t.Run("from a host that is no node", func(t *testing.T) {
		host := e.outsideHost(t, "intruder", 201)
		text := unique("raw")
		before := dropped(t)
		e.onHost(t, host, packet(text, node.IPv4)...)
		e.waitCounted(t, dropped, before, "unknown_node")
		e.expectNeverSaw(t, victim, text)
	})
	t.Run("from a node with a VNI that no VPC has", func(t *testing.T) {
		text := unique("raw")
		// The packet is returned to the node whose address it has, which lacks the VPC too.
		ofNoVPC := e.dropsOf(second, "")
		before := ofNoVPC(t)
		arguments := vxlanTo(node.IPv4, "16777215", scene.IP(peer, false), scene.IP(victim, false), text)
		fromNode(t, arguments...)
		e.waitCounted(t, ofNoVPC, before, "unknown_vni")
		e.expectNeverSaw(t, victim, text)
	})
	t.Run("from a node under an address of the receiver's own pod", func(t *testing.T) {
		text := unique("raw")
		before := dropped(t)
		arguments := vxlanTo(node.IPv4, vni, scene.IP(victim, false), scene.IP(victim, false), text)
		fromNode(t, arguments...)
		e.waitCounted(t, dropped, before, "spoofed_local")
		e.expectNeverSaw(t, victim, text)
	})
}

// hostThatPassesFor returns a way to send tunnel packets with a node's address. A node's
// own sockets can't: their packets to the tunnel's port are dropped. The host must not
// ask for neighbours under that address, or others would take it for the node.
func (e *env) hostThatPassesFor(t *testing.T, node cluster.Node) func(t *testing.T, packet ...string) {
	t.Helper()
	host := e.outsideHost(t, "double", 218)
	for _, command := range [][]string{
		{"sysctl", "-qw", "net.ipv4.conf.all.arp_announce=2"},
		{"ip", "address", "add", netip.PrefixFrom(node.IPv4, 32).String(), "dev", "lo"},
	} {
		if out, err := host.Exec(within(t, patience), command...); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	return func(t *testing.T, packet ...string) {
		t.Helper()
		e.onHost(t, host, append(packet, "--from", node.IPv4.String())...)
	}
}

// onUnderlay returns addresses of the nodes' network; see stage.Env.OnUnderlay.
func (e *env) onUnderlay(number byte) (v4, v6 netip.Addr) { return e.OnUnderlay(number) }

// outsideHost returns a machine on the underlay outside of the cluster; see stage.Env.OutsideHost.
func (e *env) outsideHost(t *testing.T, name string, number byte) *cluster.Host {
	t.Helper()
	return e.OutsideHost(t, name, number)
}

// outsideHostAt does the same with addresses of either family.
func (e *env) outsideHostAt(t *testing.T, name string, addresses ...netip.Addr) *cluster.Host {
	t.Helper()
	return e.OutsideHostAt(t, name, addresses...)
}

// onHost runs the test tool on a host of the underlay.
func (e *env) onHost(t *testing.T, host *cluster.Host, arguments ...string) string {
	t.Helper()
	return e.OnHost(t, host, arguments...)
}
