// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

const (
	// linkVNI is the VXLAN of another network of a victim.
	linkVNI = 7078
	// linkPort is the UDP port of VXLAN links.
	linkPort = "14789"
	// onSegment is the device of a pod on the nodes' network.
	onSegment = "ext1"
)

// segmentNet returns a network of macvlan interfaces on the nodes' own device.
func segmentNet(of *scene.Tenant, name string, vni int32, cidr string) *danmv1.DanmNet {
	return &danmv1.DanmNet{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace.Name, Name: name},
		Spec: danmv1.NetworkSpec{NetworkID: name, NetworkType: "macvlan", Options: danmv1.NetworkOptions{
			HostDevice: nodeDevice, VXLAN: vni, CIDR: cidr, ContainerPrefix: "ext",
		}},
	}
}

// beside has a pod in the tenant's VPC, and with an address in a network.
func beside(of *scene.Tenant, network *danmv1.DanmNet, ip string) scene.PodOption {
	return scene.WithInterfaces(fmt.Sprintf(`[{"vpc":%q},{"network":%q,"ip":%q}]`, of.VPC.Name, network.Name, ip))
}

// besideNodes runs a pod of one tenant with an interface on the nodes' network, and two pods of
// another tenant: one on its node, and one on the other node, which is in a network on a VXLAN too.
// leave deletes the pods in these networks.
func (e *env) besideNodes(t *testing.T) (i *intrusion, leave func()) {
	t.Helper()
	first, second := e.Nodes()
	victim, thief := e.Tenant(t, stage.Overlapping("victim")), e.Tenant(t, stage.Overlapping("thief"))
	owned, open := segmentNet(victim, "inside", linkVNI, "10.108.9.0/24"), segmentNet(thief, "segment", 0, "10.108.10.0/24")
	for _, network := range []*danmv1.DanmNet{owned, open} {
		e.Make(t, network)
		e.AwaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	}
	i = &intrusion{
		env: e, near: victim.Pod("near", scene.OnNode(second)),
		far:      victim.Pod("far", scene.OnNode(first), beside(victim, owned, "10.108.9.7")),
		intruder: thief.Pod("segment", scene.OnNode(second), beside(thief, open, "10.108.10.66")),
	}
	e.RunFor(t, i.near, i.far, i.intruder)
	return i, func() {
		e.end(t, i.intruder, open)
		e.end(t, i.far, owned)
	}
}

// TestMacvlanPod_ForgesNodeAddress_ReachesNothing: the pod of a tenant has a macvlan on the device
// with the node's address, and with it the nodes as neighbours. At the end a host of that network
// sends the same under a node's address.
func TestMacvlanPod_ForgesNodeAddress_ReachesNothing(t *testing.T) {
	t.Parallel()
	e := start(t)
	i, leave := e.besideNodes(t)
	defer leave()
	there, here := e.Lab.Nodes()[0], e.Lab.Nodes()[1]
	vpc := []string{
		"--vni", fmt.Sprint(e.recordOf(t, i.near).VNI),
		"--source", scene.IP(i.near, false).String(), "--target", scene.IP(i.far, false).String(),
	}
	link := []string{
		"--vni", fmt.Sprint(linkVNI), "--port", linkPort, "--source", "10.108.9.66", "--target", "10.108.9.7", "--target-mac", "ff:ff:ff:ff:ff:ff",
	}
	vxlan := func(inner []string, from ...string) []string {
		command := []string{"raw", "vxlan", "--by", "packet", "--node", there.IPv4.String()}
		return slices.Concat(command, inner, from)
	}
	onDevice := []string{"--device", onSegment}
	for _, inner := range [][]string{vpc, link} {
		for _, from := range [][]string{onDevice, append(onDevice, "--from", here.IPv4.String()), append(onDevice, "--from", there.IPv4.String())} {
			i.refused(t, "forged_node", stage.Unique("segment"), vxlan(inner, from...)...)
		}
	}
	i.tellsNobody(t, here.IPv4)
	host, _ := e.outsider(t, 214)
	for _, inner := range [][]string{vpc, link} {
		control := stage.Unique("control")
		e.background(t, host, append(vxlan(inner, "--from", here.IPv4.String()), "--text", control)...)()
		i.heardNothing(t, i.far, control)
	}
}

// tellsNobody has the intruder announce to its network that a node is at another Ethernet address,
// and requires that the other node does not believe it.
func (i *intrusion) tellsNobody(t *testing.T, node netip.Addr) {
	t.Helper()
	forged, everybody := net.HardwareAddr{2, 0, 0, 0, 0x66, 0x66}, net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	arp := slices.Concat(everybody, forged, []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 2}, forged, node.AsSlice(), everybody, node.AsSlice(), make([]byte, 18))
	before := i.dropped(t, "forged_node")
	i.InPod(t, i.intruder, scene.Tool, "raw", "bytes", "--device", onSegment, hex.EncodeToString(arp))
	err := scene.Until(stage.Within(t, stage.Patience), "the ARP packet to be counted", func(context.Context) (bool, string, error) {
		return i.dropped(t, "forged_node") > before, "", nil
	})
	if err != nil {
		t.Error(err)
	}
	if known := i.OnNode(t, i.far.Spec.NodeName, "ip", "neigh", "show", node.String()); strings.Contains(known, forged.String()) {
		t.Errorf("the other node believes that %s is at the pod: %s", node, known)
	}
}
