// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policyspec evaluates network policies as their specifications describe them, for tests.
// It reads API objects, is written from the texts of the specifications alone, and shares no code
// with the product. It looks at every policy for every packet.
package policyspec

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// World has all objects that decide about packets.
type World struct {
	// Namespaces are the labels of the namespaces by name.
	Namespaces map[string]map[string]string
	Policies   []*networkingv1.NetworkPolicy
	Cluster    []*v1alpha2.ClusterNetworkPolicy
	Multi      []*Multi
}

// Multi is a MultiNetworkPolicy. For is the value of its annotation policy-for.
type Multi struct {
	Namespace, Name, For string
	Spec                 networkingv1.NetworkPolicySpec
}

// End is a pod's interface, or with an empty Pod an address that is not of a pod.
type End struct {
	Pod, Namespace string
	Labels         map[string]string
	Ports          []corev1.ContainerPort
	// VPC or Network has the interface.
	VPC, Network string
	IP           string
	// Shared marks the end that a shared service hides from the other.
	Shared bool
}

// Packet opens a flow.
type Packet struct {
	From, To End
	Protocol string
	Port     int32
	Probe    bool
}

// By has the deciding policies of both directions as "tier name rule". A namespaced policy is
// "namespaced": several may allow the same. An empty text means that no policy decides.
type By struct{ Egress, Ingress string }

// Evaluate reports whether a packet is allowed, and names the policies that decide.
func (w *World) Evaluate(p Packet) (bool, By) {
	if p.From.Pod != "" && p.From.Pod == p.To.Pod {
		return true, By{}
	}
	out, in, by := true, true, By{}
	if p.From.Pod != "" {
		out, by.Egress = w.direction(p, p.From, p.To, false)
	}
	if p.To.Pod != "" && !p.Probe {
		in, by.Ingress = w.direction(p, p.To, p.From, true)
	}
	return out && in, by
}

func (w *World) direction(p Packet, self, peer End, ingress bool) (bool, string) {
	if self.Network == "" {
		if action, by := w.tier(v1alpha2.AdminTier, p, self, peer, ingress); action != "" && action != "Pass" {
			return action == "Accept", by
		}
	}
	isolated, allowed := w.namespaced(p, self, peer, ingress)
	if isolated {
		return allowed, "namespaced"
	}
	if self.Network == "" {
		if action, by := w.tier(v1alpha2.BaselineTier, p, self, peer, ingress); action != "" && action != "Pass" {
			return action == "Accept", by
		}
	}
	return true, ""
}

func (w *World) namespaced(p Packet, self, peer End, ingress bool) (isolated, allowed bool) {
	if self.Network == "" {
		for _, one := range w.Policies {
			i, a := w.networkPolicy(one.Namespace, &one.Spec, p, self, peer, ingress)
			isolated, allowed = isolated || i, allowed || a
		}
		return isolated, allowed
	}
	for _, one := range w.Multi {
		for _, name := range strings.Split(one.For, ",") {
			if name = strings.TrimSpace(name); name != self.Network && one.Namespace+"/"+name != self.Network {
				continue
			}
			i, a := w.networkPolicy(one.Namespace, &one.Spec, p, self, peer, ingress)
			isolated, allowed = isolated || i, allowed || a
		}
	}
	return isolated, allowed
}

// networkPolicy: a policy of the pod's namespace that selects the pod isolates it for its types;
// any rule of it may allow.
func (w *World) networkPolicy(
	ns string,
	spec *networkingv1.NetworkPolicySpec,
	p Packet,
	self, peer End,
	ingress bool,
) (isolated, allowed bool) {
	types := spec.PolicyTypes
	if len(types) == 0 {
		types = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(spec.Egress) > 0 {
			types = append(types, networkingv1.PolicyTypeEgress)
		}
	}
	want := networkingv1.PolicyTypeEgress
	if ingress {
		want = networkingv1.PolicyTypeIngress
	}
	if self.Namespace != ns || !fits(&spec.PodSelector, self.Labels) || !slices.Contains(types, want) {
		return false, false
	}
	if ingress {
		for _, r := range spec.Ingress {
			allowed = allowed || w.peersFit(ns, r.From, self, peer, ingress) && portsFit(r.Ports, p)
		}
		return true, allowed
	}
	for _, r := range spec.Egress {
		allowed = allowed || w.peersFit(ns, r.To, self, peer, ingress) && portsFit(r.Ports, p)
	}
	return true, allowed
}

func (w *World) peersFit(ns string, peers []networkingv1.NetworkPolicyPeer, self, peer End, ingress bool) bool {
	for _, one := range peers {
		if b := one.IPBlock; b != nil {
			inside := contains(b.CIDR, peer.IP)
			for _, except := range b.Except {
				inside = inside && !contains(except, peer.IP)
			}
			if inside {
				return true
			}
			continue
		}
		namespaces := one.NamespaceSelector
		if namespaces == nil {
			if !peer.Shared || !ingress {
				if peer.Namespace != ns {
					continue
				}
				namespaces = &metav1.LabelSelector{}
			}
		}
		if w.podFits(namespaces, one.PodSelector, self, peer, ingress) {
			return true
		}
	}
	return len(peers) == 0
}

// podFits: a selector of pods means pods of the same VPC or network, and the pods of a shared
// service. A client by a shared service fits selectors without conditions; nil is a condition.
func (w *World) podFits(namespaces, pods *metav1.LabelSelector, self, peer End, ingress bool) bool {
	if peer.Shared && ingress {
		return isEmpty(namespaces) && (pods == nil || isEmpty(pods))
	}
	if peer.Pod == "" || peer.Network != self.Network || !peer.Shared && peer.VPC != self.VPC {
		return false
	}
	return fits(namespaces, w.Namespaces[peer.Namespace]) && (pods == nil || fits(pods, peer.Labels))
}

// tier: the first rule that matches decides, by priority of the policies and order of the rules.
func (w *World) tier(tier v1alpha2.Tier, p Packet, self, peer End, ingress bool) (string, string) {
	list := slices.Clone(w.Cluster)
	slices.SortFunc(list, func(a, b *v1alpha2.ClusterNetworkPolicy) int {
		return cmp.Or(cmp.Compare(a.Spec.Priority, b.Spec.Priority), cmp.Compare(a.Name, b.Name))
	})
	for _, one := range list {
		subject := one.Spec.Subject
		if one.Spec.Tier != tier || subject.Namespaces != nil && !fits(subject.Namespaces, w.Namespaces[self.Namespace]) {
			continue
		}
		if pods := subject.Pods; pods != nil &&
			(!fits(&pods.NamespaceSelector, w.Namespaces[self.Namespace]) || !fits(&pods.PodSelector, self.Labels)) {
			continue
		}
		for i, r := range rulesOf(one, ingress) {
			matches, readable := w.rule(r, p, self, peer, ingress)
			switch {
			case readable && !matches, !readable && r.Action == "Accept":
				continue
			case !readable:
				return "Deny", fmt.Sprintf("%s %s %d", tier, one.Name, i)
			}
			return string(r.Action), fmt.Sprintf("%s %s %d", tier, one.Name, i)
		}
	}
	return "", ""
}

// rulesOf returns the rules of a direction, as rules of egress.
func rulesOf(one *v1alpha2.ClusterNetworkPolicy, ingress bool) []v1alpha2.ClusterNetworkPolicyEgressRule {
	if !ingress {
		return one.Spec.Egress
	}
	var out []v1alpha2.ClusterNetworkPolicyEgressRule
	for _, r := range one.Spec.Ingress {
		rule := v1alpha2.ClusterNetworkPolicyEgressRule{Action: r.Action, Protocols: r.Protocols}
		for _, from := range r.From {
			rule.To = append(rule.To, v1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: from.Namespaces, Pods: from.Pods})
		}
		out = append(out, rule)
	}
	return out
}

// rule reports whether a rule matches, and whether all of its parts are known.
func (w *World) rule(
	r v1alpha2.ClusterNetworkPolicyEgressRule,
	p Packet,
	self, peer End,
	ingress bool,
) (matches, readable bool) {
	peers, knownPeers := w.clusterPeersFit(r.To, self, peer, ingress)
	ports, knownPorts := protocolsFit(r.Protocols, p)
	return peers && ports, knownPeers && knownPorts
}

func (w *World) clusterPeersFit(
	list []v1alpha2.ClusterNetworkPolicyEgressPeer,
	self, peer End,
	ingress bool,
) (peers, readable bool) {
	for _, one := range list {
		switch {
		case one.Namespaces != nil:
			peers = peers || w.podFits(one.Namespaces, nil, self, peer, ingress)
		case one.Pods != nil:
			peers = peers || w.podFits(&one.Pods.NamespaceSelector, &one.Pods.PodSelector, self, peer, ingress)
		case one.Networks != nil:
			for _, cidr := range one.Networks {
				peers = peers || contains(string(cidr), peer.IP)
			}
		default:
			return false, false
		}
	}
	return peers, true
}

func protocolsFit(list []v1alpha2.ClusterNetworkPolicyProtocol, p Packet) (ports, readable bool) {
	ports = len(list) == 0
	for _, one := range list {
		switch {
		case one.TCP != nil:
			ports = ports || p.Protocol == "TCP" && portFits(one.TCP.DestinationPort, p.Port)
		case one.UDP != nil:
			ports = ports || p.Protocol == "UDP" && portFits(one.UDP.DestinationPort, p.Port)
		case one.SCTP != nil:
			ports = ports || p.Protocol == "SCTP" && portFits(one.SCTP.DestinationPort, p.Port)
		case one.DestinationNamedPort != "":
			ports = ports || hasNamed(p, one.DestinationNamedPort)
		default:
			return false, false
		}
	}
	return ports, true
}

func portFits(want *v1alpha2.Port, port int32) bool {
	if want == nil {
		return true
	}
	if want.Range != nil {
		return port >= want.Range.Start && port <= want.Range.End
	}
	return port == want.Number
}

func portsFit(ports []networkingv1.NetworkPolicyPort, p Packet) bool {
	for _, one := range ports {
		if protocol := one.Protocol; protocol != nil && string(*protocol) != p.Protocol ||
			protocol == nil && p.Protocol != "TCP" {
			continue
		}
		switch {
		case one.Port == nil:
			return true
		case one.Port.StrVal != "":
			if hasNamed(p, one.Port.StrVal) {
				return true
			}
		case one.EndPort == nil && one.Port.IntVal == p.Port,
			one.EndPort != nil && one.Port.IntVal <= p.Port && p.Port <= *one.EndPort:
			return true
		}
	}
	return len(ports) == 0
}

// hasNamed reports whether the destination has a port of that name with the packet's number.
func hasNamed(p Packet, name string) bool {
	for _, one := range p.To.Ports {
		if one.Name == name && one.ContainerPort == p.Port && string(one.Protocol) == p.Protocol {
			return true
		}
	}
	return false
}

func contains(cidr, ip string) bool {
	_, network, err := net.ParseCIDR(cidr)
	return err == nil && network.Contains(net.ParseIP(ip))
}

func isEmpty(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

func fits(s *metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(of))
}
