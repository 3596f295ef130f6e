// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// leaving: under the interface's shadow, and nowhere that is closed.
func (r *Rules) leaving(at Place, in, out seen, mark uint32) error {
	from := r.Owner[at.Device]
	shadow, node := from.Shadow4, r.W.Config.NodeShadow4
	if out.src.Is6() {
		shadow, node = from.Shadow6, r.W.Config.NodeShadow6
	}
	switch {
	case !has(from, in.src) || in.ethSrc != from.MAC:
		return fmt.Errorf("the source is not the pod's own")
	case out.src != shadow:
		return fmt.Errorf("it leaves as %s", out.src)
	case in.sound && !out.sound:
		return fmt.Errorf("the header's checksum is broken")
	}
	switch mark & state.MarkMask {
	case 0:
		if out.dst != node {
			return r.answering(from, out)
		}
	case state.MarkShared:
		for _, s := range r.state.Services {
			if s.VNI == sharedVNI && s.VIP == in.dst &&
				slices.ContainsFunc(s.Backends, func(b state.Backend) bool { return b.IP == out.dst }) {
				return nil
			}
		}
		return fmt.Errorf("%s is no backend of %s", out.dst, in.dst)
	case state.MarkEgress, state.MarkNode:
		if out.dst != in.dst && !r.leadsOutside(from.VNI, in.dst, out.dst) {
			return fmt.Errorf("%s does not lead to %s", in.dst, out.dst)
		}
		return r.outside(from, out, mark&state.MarkMask)
	}
	return nil
}

// leadsToNodes reports whether packets to such a prefix are for nodes. A client may have
// such an address: a program of a node, or a load balancer that opens connections itself.
func leadsToNodes(c state.ClosedClass) bool {
	return c == state.ClosedNode || c == state.ClosedBalancer
}

// answering: to a peer that may have reached the pod from outside, and no opening.
func (r *Rules) answering(from state.Interface, out seen) error {
	at := slices.IndexFunc(r.state.VPCs, func(v state.VPC) bool { return v.VNI == from.VNI })
	if !r.state.VPCs[at].Fronted {
		return fmt.Errorf("it answers %s", out.dst)
	}
	for _, c := range r.state.Closed {
		if c.VNI == 0 && c.Prefix.Contains(out.dst) && !leadsToNodes(c.Class) && c.Class != state.ClosedDenied {
			return fmt.Errorf("it answers %s, which is closed by %s", out.dst, c.Prefix)
		}
	}
	if out.opens {
		return fmt.Errorf("it opens a connection to %s", out.dst)
	}
	return nil
}

func (r *Rules) outside(from state.Interface, out seen, mark uint32) error {
	at := slices.IndexFunc(r.state.VPCs, func(v state.VPC) bool { return v.VNI == from.VNI })
	vpc := r.state.VPCs[at]
	if !vpc.EgressMasquerade || (mark == state.MarkNode) != vpc.Default {
		return fmt.Errorf("this VPC has no such egress")
	}
	nodes := vpc.Default || slices.ContainsFunc(r.state.NodePorts, func(p state.NodePort) bool {
		return p.VNI == from.VNI && p.Family.Has(out.dst) && (!out.ports || p.Proto == out.proto && p.Port == out.dport)
	})
	for _, c := range r.state.Closed {
		ofNode := c.Class == state.ClosedNode && nodes || c.Class == state.ClosedBalancer && vpc.Default
		if (c.VNI == 0 || c.VNI == from.VNI) && c.Prefix.Contains(out.dst) && !ofNode {
			return fmt.Errorf("%s is closed by %s", out.dst, c.Prefix)
		}
	}
	if !nodes && slices.Contains(r.state.Nodes, out.dst) {
		return fmt.Errorf("%s is a node", out.dst)
	}
	if out.proto == state.ProtoUDP && out.dport == programs.DefaultTunnelPort {
		return fmt.Errorf("to the tunnel's port")
	}
	return nil
}

// entering: a packet to the shadow goes to the pod.
func (r *Rules) entering(at Place, in, out seen) error {
	to := r.Owner[at.Device]
	if in.dst != to.Shadow4 && in.dst != to.Shadow6 {
		return fmt.Errorf("it was for %s", in.dst)
	}
	if !has(to, out.dst) || out.ethDst != to.MAC || out.ethSrc != state.VirtualMAC {
		return fmt.Errorf("it is now for %s", out.dst)
	}
	if in.sound && !out.sound {
		return fmt.Errorf("the header's checksum is broken")
	}
	return nil
}
