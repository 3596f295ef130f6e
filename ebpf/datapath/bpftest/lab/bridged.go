// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"strconv"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/test/cgrouptest"
)

// Bridged builds a lab of some nodes on one network, a bridge in the namespace of the test,
// without pods and without the host outside. Pod adds pods, and ApplyEach gives every node
// the tables that the test has made of its State.
func Bridged(t testing.TB, nodes int) *Lab {
	t.Helper()
	bpftest.InNamespace(t)
	cgroup := bpftest.ChildCgroup(t)
	cgrouptest.Join(t, cgroup)
	l := &Lab{T: t}
	l.makeNodes(nodes)
	bridge := bpftest.AddLink(t, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "underlay"}})
	for i, n := range l.Nodes {
		port, there := bpftest.LinkTo(t, PortName(i), state.MAC{2, 0, 0, 0, 3, byte(i)}, n.NS, "underlay", 1500)
		link, err := netlink.LinkByIndex(port)
		bpftest.Must(t, err)
		bpftest.Must(t, netlink.LinkSetMasterByIndex(link, bridge))
		bpftest.In(t, n.NS, func() {
			n.addUnderlay(t, there)
			n.open(t, cgroup)
		})
	}
	return l
}

// PortName returns the name of the bridge's port to a node.
func PortName(node int) string { return "port" + strconv.Itoa(node) }

// Pod adds a pod 10.0.1.<number> of the first VPC to a node. Every node's State has its rows.
func (l *Lab) Pod(node, number int) *Pod {
	return l.addPod(node, VNI1, number, state.MAC{2, 0, 10, 0, 1, byte(number)})
}

// ApplyEach gives every node its State.
func (l *Lab) ApplyEach() {
	l.T.Helper()
	for i, n := range l.Nodes {
		bpftest.In(l.T, n.NS, func() {
			if err := n.Datapath.Apply(n.State); err != nil {
				l.T.Fatalf("apply on node %d: %v", i+1, err)
			}
		})
	}
}
