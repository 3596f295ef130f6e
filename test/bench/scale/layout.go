// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"net/netip"
)

// wide is the VPC with a pod on every node: full push sends each of its Addresses to all
// nodes. Namespace, tenant, VPC, Subnet and Network of each VPC of the lab have one name.
const wide = "wide"

// Size of a lab.
type Size struct {
	// Nodes is the number of nodes in the cluster. It is more than Hollow, the number of nodes that
	// run the daemon's control half; the others hold watches. Hollow is at least twice Bouncers.
	Nodes, Hollow int
	// Bouncers is how many nodes hold the addresses of each subnet with roles, at least 1.
	Bouncers int
	// Bounced is how many narrow VPCs get bouncers, at most: the operator needs some 12 writes
	// for each, one after the other.
	Bounced int
	// PodsPerNode is the number of pods that a node has when the lab is up, beside the one
	// in the wide VPC. It is even.
	PodsPerNode int
}

func (s Size) String() string {
	return fmt.Sprintf("%d nodes, %d Addresses", s.Nodes, s.addresses())
}

// addressesOfNode is the number of Addresses that a node has itself, in the default VPC: the
// chart's has both families.
const addressesOfNode = 2

// addresses returns the number of Addresses that the lab is loaded with: the Addresses of pods and
// of nodes.
func (s Size) addresses() int { return s.Nodes * (s.PodsPerNode + 1 + addressesOfNode) }

// mayBounce reports whether a node may be a member of roles. Half of the hollow nodes may: their
// plans show when a member has an address, and the plans of the others show that they need no
// tables. Nodes 0 and 1, which have the pods of the first narrow VPC, may not.
func (s Size) mayBounce(node int) bool { return node >= (s.Hollow+1)/2 && node < s.Hollow }

// nodeName returns the name of a node by its number, and nodeIP its address.
func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

func nodeIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}).Next()
}

// loopback returns the address of a node on this machine.
func loopback(i int) netip.Addr {
	on := nodeIP(i).As4()
	on[0] = 127
	return netip.AddrFrom4(on)
}

// narrow returns the name of a VPC with pods on two nodes: the node with the VPC's number, and the
// next one. There are as many narrow VPCs as nodes.
func narrow(i int) string { return fmt.Sprintf("narrow-%04d", i) }

// hostOf returns the number of the node of a pod of a narrow VPC.
func (s Size) hostOf(vpc, pod int) int { return (vpc + pod%2) % s.Nodes }

// stride is a prime number.
const stride = 617

// hostInWide returns the number of the node of a pod of the wide VPC. Pods that follow each other
// are on nodes far apart, so that some of a hundred pods are on hollow nodes.
func (s Size) hostInWide(pod int) int { return pod * stride % s.Nodes }

// vpcsOf returns the VPCs that a node has pods of, and the VPC of its own address.
func (s Size) vpcsOf(node int, defaultVPC string) map[string]bool {
	return map[string]bool{defaultVPC: true, wide: true, narrow(node): true, narrow((node + s.Nodes - 1) % s.Nodes): true}
}

// vniOf is the VNI of a narrow VPC, and wideVNI the VNI of the wide one. They descend, because the
// operator chooses the VNI of the default VPC above the numbers that are taken first.
func vniOf(vpc int) int32 { return int32(wideVNI - 1 - vpc) }

const wideVNI = 9_999
