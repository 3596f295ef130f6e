// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy judges packets by network policies, and finds the policies of a set of labels
// (docs/design/165). All kinds of policies are one list, ordered by tier. The package judges
// single packets and sees no flows: replies to an allowed packet are the caller's.
package policy

import (
	"net/netip"

	"github.com/alioth-net/alioth/store/rows/policy"
)

// Identity has the properties of a pod that policies select it by.
type Identity struct {
	// VPC of the interface; "" for an interface on Network.
	VPC string
	// Network outside of VPCs as "namespace/name"; "" for an interface in VPC.
	Network   string
	Namespace string
	// NamespaceLabels are the labels of the namespace, Labels the labels of the pod.
	NamespaceLabels, Labels map[string]string
	// Ports are the ports with a name.
	Ports []Port
}

// Port is a port of a container.
type Port = policy.Port

// End is an end of a packet, as the judging interface sees it: after a Service was translated, and
// before shadow addresses.
type End struct {
	IP netip.Addr
	// Virtual is the address of the shared service that leads to this end; ranges match either
	// address. It is not set for other ends.
	Virtual netip.Addr
	// Pod is nil for an end that is not an interface of a pod.
	Pod *Identity
	// UID of the pod, "" without one.
	UID string
	// Shared is true for the backend of a shared service, and for a client that came by one.
	// Selectors match such a backend in every VPC. They match such a client if they have no
	// conditions, because labels of different VPCs are not comparable.
	Shared bool
}

// Packet opens a flow.
type Packet struct {
	From, To End
	// Protocol is TCP, UDP or SCTP. Only rules without ports match others.
	Protocol string
	Port     uint16
	// Probe is true for a packet of the kubelet on the node of the pod To.
	Probe bool
}

// Cause is the policy that decided, with the number of its rule.
type Cause struct {
	policy.Key
	Tier policy.Tier
	// Rule is the index of the rule in its direction; -1 if no rule accepts and the policy
	// isolates the pod.
	Rule int
	// RuleName is the name of the rule, "" without one.
	RuleName string
}

// Decision is the verdict of one direction. Cause is nil if no policy decides.
type Decision struct {
	Allowed bool
	Cause   *Cause
}

// Verdict has the decisions of both ends: egress of From and ingress of To.
type Verdict struct {
	Egress, Ingress Decision
}

// Allowed reports whether both ends allow the packet.
func (v Verdict) Allowed() bool { return v.Egress.Allowed && v.Ingress.Allowed }

var allowed = Decision{Allowed: true}

// Judge returns the verdict about a packet, and the cause of each decision.
func (x *Index) Judge(p *Packet) Verdict {
	v := Verdict{Egress: allowed, Ingress: allowed}
	if p.From.Pod != nil && p.To.Pod != nil && p.From.UID == p.To.UID {
		return v
	}
	if p.From.Pod != nil {
		v.Egress = decide(x.Subjects(p.From.Pod), policy.Egress, &view{packet: p, subject: p.From.Pod, peer: &p.To})
	}
	if p.To.Pod != nil && !p.Probe {
		v.Ingress = decide(x.Subjects(p.To.Pod), policy.Ingress, &view{packet: p, subject: p.To.Pod, peer: &p.From})
	}
	return v
}

// decide asks the policies that select a pod, tier by tier.
func decide(policies []*policy.Policy, direction policy.Direction, v *view) Decision {
	for len(policies) > 0 {
		tier := firstTier(policies)
		policies = policies[len(tier):]
		switch action, cause := decideTier(tier, direction, v); action {
		case policy.Accept:
			return Decision{Allowed: true, Cause: cause}
		case policy.Deny:
			return Decision{Cause: cause}
		}
	}
	return allowed
}

// firstTier returns the policies of the first tier of a list.
func firstTier(policies []*policy.Policy) []*policy.Policy {
	for i, p := range policies {
		if p.Tier != policies[0].Tier {
			return policies[:i]
		}
	}
	return policies
}

// decideTier returns the action of the first rule that matches, and 0 without one. If no rule
// matches, a policy that isolates the pod denies.
func decideTier(policies []*policy.Policy, direction policy.Direction, v *view) (policy.Action, *Cause) {
	var isolation *Cause
	for _, p := range policies {
		if !Enforced(p, direction) {
			continue
		}
		for i := range p.Rules[direction] {
			if rule := &p.Rules[direction][i]; v.matches(rule) {
				return rule.Action, &Cause{Key: p.Key, Tier: p.Tier, Rule: i, RuleName: rule.Name}
			}
		}
		if isolation == nil && p.Isolates[direction] {
			isolation = &Cause{Key: p.Key, Tier: p.Tier, Rule: -1}
		}
	}
	if isolation != nil {
		return policy.Deny, isolation
	}
	return 0, nil
}

// Enforced reports whether the rules of a direction count: rules of a NetworkPolicy whose
// policyTypes lack their direction do not.
func Enforced(p *policy.Policy, direction policy.Direction) bool {
	return p.Tier != policy.Namespaced || p.Isolates[direction]
}

// view is a packet as a pod sees it that policies select.
type view struct {
	packet  *Packet
	subject *Identity
	peer    *End
}

func (v *view) matches(rule *policy.Rule) bool {
	if !rule.Everyone && !v.matchesPeer(rule.Peers) {
		return false
	}
	if len(rule.Ports) == 0 {
		return true
	}
	for i := range rule.Ports {
		if v.matchesPort(&rule.Ports[i]) {
			return true
		}
	}
	return false
}

func (v *view) matchesPeer(peers []policy.Peer) bool {
	for _, one := range peers {
		if one.Block != nil && (inBlock(one.Block, v.peer.IP) || inBlock(one.Block, v.peer.Virtual)) {
			return true
		}
		if one.Pods != nil && v.matchesPods(one.Pods) {
			return true
		}
	}
	return false
}

// matchesPods compares the peer with selectors: it is in the VPC or network of the subject, or
// shared.
func (v *view) matchesPods(pods *policy.Pods) bool {
	pod := v.peer.Pod
	switch {
	case v.peer.Shared && v.peer == &v.packet.From:
		return pods.Namespace == "" && len(pods.Namespaces) == 0 && len(pods.Pods) == 0
	case pod == nil:
		return false
	case pod.Network != v.subject.Network, !v.peer.Shared && pod.VPC != v.subject.VPC:
		return false
	}
	return Includes(pods, pod)
}

// inBlock reports whether a range has the address.
func inBlock(block *policy.Block, ip netip.Addr) bool {
	if !block.CIDR.Contains(ip) {
		return false
	}
	for _, except := range block.Except {
		if except.Contains(ip) {
			return false
		}
	}
	return true
}

func (v *view) matchesPort(ports *policy.Ports) bool {
	p := v.packet
	if ports.Protocol != "" && ports.Protocol != p.Protocol {
		return false
	}
	if ports.Name == "" {
		return ports.First <= p.Port && p.Port <= ports.Last
	}
	if p.To.Pod == nil {
		return false
	}
	for _, one := range p.To.Pod.Ports {
		if one.Name == ports.Name && one.Protocol == p.Protocol && one.Port == p.Port {
			return true
		}
	}
	return false
}
