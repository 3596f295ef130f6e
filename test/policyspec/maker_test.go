// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyspec_test

import (
	"fmt"
	"maps"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/alioth-net/alioth/test/policyspec"
)

var (
	namespaces = []string{"one", "two", "three"}
	vpcs       = []string{"red", "blue"}
	networks   = []string{"one/lan", "two/lan"}
	keys       = []string{"app", "role", "env"}
	words      = []string{"a", "b", "c"}
	portNames  = []string{"web", "dns"}
	protocols  = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	cidrs      = []string{"10.0.0.0/8", "10.0.0.1/32", "10.0.0.0/30", "10.0.0.2/31", "203.0.113.0/24", "0.0.0.0/0", "fd00::/64", "::/0", "10.0.0.5/24", "bad"}
	outside    = []string{"203.0.113.9", "198.51.100.1", "fd00::99", "2001:db8::1"}
)

// maker makes random worlds.
type maker struct{ *rand.Rand }

func (m maker) chance(percent int) bool { return m.IntN(100) < percent }

func pick[T any](m maker, list []T) T { return list[m.IntN(len(list))] }

func some[T any](m maker, most int, make func() T) (list []T) {
	for range m.IntN(most + 1) {
		list = append(list, make())
	}
	return list
}

func (m maker) world() *policyspec.World {
	w := &policyspec.World{Namespaces: map[string]map[string]string{}}
	for _, name := range namespaces {
		w.Namespaces[name] = m.labels()
		w.Namespaces[name]["kubernetes.io/metadata.name"] = name
	}
	w.Policies = some(m, 4, func() *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: m.meta(), Spec: m.spec()}
	})
	w.Multi = some(m, 2, func() *policyspec.Multi {
		meta := m.meta()
		return &policyspec.Multi{Namespace: meta.Namespace, Name: meta.Name, For: pick(m, []string{"lan", "one/lan", "two/lan, lan", "other", ""}), Spec: m.spec()}
	})
	w.Cluster = some(m, 4, m.cluster)
	unique(w)
	return w
}

// unique gives each policy a name of its own.
func unique(w *policyspec.World) {
	for i, p := range w.Policies {
		p.Name = fmt.Sprintf("np%d", i)
	}
	for i, p := range w.Multi {
		p.Name = fmt.Sprintf("mnp%d", i)
	}
	for i, p := range w.Cluster {
		p.Name = fmt.Sprintf("cnp%d", i)
	}
}

func (m maker) labels() map[string]string {
	out := map[string]string{}
	for _, key := range keys {
		if m.chance(60) {
			out[key] = pick(m, words)
		}
	}
	return out
}

func (m maker) meta() metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: pick(m, namespaces)} }

// pods returns pods in both VPCs, with equal addresses, and on networks outside of them.
func (m maker) pods() (pods []policyspec.End) {
	for i := range 7 {
		pod := policyspec.End{Pod: fmt.Sprint("p", i), Namespace: pick(m, namespaces), Labels: m.labels(), IP: fmt.Sprint("10.0.0.", 1+m.IntN(3))}
		if m.chance(20) {
			pod.IP = fmt.Sprint("fd00::", 1+m.IntN(3))
		}
		if m.chance(75) {
			pod.VPC = pick(m, vpcs)
		} else {
			pod.Network = pick(m, networks)
		}
		for _, name := range portNames {
			if m.chance(50) {
				pod.Ports = append(pod.Ports, corev1.ContainerPort{Name: name, Protocol: pick(m, protocols), ContainerPort: m.port()})
			}
		}
		pods = append(pods, pod)
	}
	return pods
}

func (m maker) port() int32 { return pick(m, []int32{53, 80, 81, 443, 8080}) }

func (m maker) selector() *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	if m.chance(25) {
		return s
	}
	if m.chance(60) {
		s.MatchLabels = map[string]string{pick(m, keys): pick(m, words)}
	}
	s.MatchExpressions = some(m, 2, func() metav1.LabelSelectorRequirement {
		r := metav1.LabelSelectorRequirement{Key: pick(m, keys), Operator: pick(m, []metav1.LabelSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"})}
		if r.Operator == "In" || r.Operator == "NotIn" {
			r.Values = append(some(m, 1, func() string { return pick(m, words) }), pick(m, words))
		}
		return r
	})
	return s
}

func (m maker) spec() networkingv1.NetworkPolicySpec {
	s := networkingv1.NetworkPolicySpec{PodSelector: *m.selector()}
	s.Ingress = some(m, 2, func() networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{From: some(m, 2, m.peer), Ports: some(m, 2, m.policyPort)}
	})
	s.Egress = some(m, 2, func() networkingv1.NetworkPolicyEgressRule {
		return networkingv1.NetworkPolicyEgressRule{To: some(m, 2, m.peer), Ports: some(m, 2, m.policyPort)}
	})
	s.PolicyTypes = pick(m, [][]networkingv1.PolicyType{nil, {"Ingress"}, {"Egress"}, {"Ingress", "Egress"}})
	return s
}

func (m maker) peer() networkingv1.NetworkPolicyPeer {
	switch m.IntN(4) {
	case 0:
		block := &networkingv1.IPBlock{CIDR: pick(m, cidrs)}
		block.Except = some(m, 2, func() string { return pick(m, cidrs[:5]) })
		return networkingv1.NetworkPolicyPeer{IPBlock: block}
	case 1:
		return networkingv1.NetworkPolicyPeer{PodSelector: m.selector()}
	case 2:
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: m.selector()}
	}
	return networkingv1.NetworkPolicyPeer{PodSelector: m.selector(), NamespaceSelector: m.selector()}
}

func (m maker) policyPort() (out networkingv1.NetworkPolicyPort) {
	if m.chance(60) {
		out.Protocol = new(pick(m, protocols))
	}
	switch m.IntN(4) {
	case 0:
		out.Port = new(intstr.FromString(pick(m, portNames)))
	case 1:
		out.Port = new(intstr.FromInt32(m.port()))
	case 2:
		out.Port = new(intstr.FromInt32(m.port()))
		out.EndPort = new(out.Port.IntVal + int32(m.IntN(400)))
	}
	return out
}

func (m maker) cluster() *v1alpha2.ClusterNetworkPolicy {
	p := &v1alpha2.ClusterNetworkPolicy{}
	p.Spec.Tier, p.Spec.Priority = pick(m, []v1alpha2.Tier{v1alpha2.AdminTier, v1alpha2.BaselineTier}), int32(m.IntN(3))
	if m.chance(50) {
		p.Spec.Subject.Namespaces = m.selector()
	} else {
		p.Spec.Subject.Pods = m.namespacedPod()
	}
	p.Spec.Ingress = some(m, 3, func() v1alpha2.ClusterNetworkPolicyIngressRule {
		rule := v1alpha2.ClusterNetworkPolicyIngressRule{Action: m.action(), Protocols: some(m, 2, m.protocol)}
		for range 1 + m.IntN(2) {
			peer := v1alpha2.ClusterNetworkPolicyIngressPeer{Namespaces: m.selector()}
			if m.chance(50) {
				peer = v1alpha2.ClusterNetworkPolicyIngressPeer{Pods: m.namespacedPod()}
			}
			if m.chance(4) {
				peer = v1alpha2.ClusterNetworkPolicyIngressPeer{}
			}
			rule.From = append(rule.From, peer)
		}
		return rule
	})
	p.Spec.Egress = some(m, 3, func() v1alpha2.ClusterNetworkPolicyEgressRule {
		rule := v1alpha2.ClusterNetworkPolicyEgressRule{Action: m.action(), Protocols: some(m, 2, m.protocol)}
		for range 1 + m.IntN(2) {
			rule.To = append(rule.To, m.clusterPeer())
		}
		return rule
	})
	return p
}

func (m maker) action() v1alpha2.ClusterNetworkPolicyRuleAction {
	return pick(m, []v1alpha2.ClusterNetworkPolicyRuleAction{"Accept", "Deny", "Pass"})
}

func (m maker) namespacedPod() *v1alpha2.NamespacedPod {
	return &v1alpha2.NamespacedPod{NamespaceSelector: *m.selector(), PodSelector: *m.selector()}
}

func (m maker) clusterPeer() (peer v1alpha2.ClusterNetworkPolicyEgressPeer) {
	switch n := m.IntN(50); {
	case n == 0:
		peer.Nodes = m.selector()
	case n == 1:
		peer.DomainNames = []v1alpha2.DomainName{"example.org"}
	case n < 15:
		peer.Namespaces = m.selector()
	case n < 30:
		peer.Pods = m.namespacedPod()
	default: // without the text that can't be read: the schema refuses it
		for range 1 + m.IntN(2) {
			peer.Networks = append(peer.Networks, v1alpha2.CIDR(pick(m, cidrs[:len(cidrs)-1])))
		}
	}
	return peer
}

func (m maker) protocol() (out v1alpha2.ClusterNetworkPolicyProtocol) {
	port := &v1alpha2.Port{Number: m.port()}
	if m.chance(30) {
		port = &v1alpha2.Port{Range: &v1alpha2.PortRange{Start: 53, End: 53 + m.port()}}
	}
	if m.chance(20) {
		port = nil
	}
	switch n := m.IntN(40); {
	case n == 0:
	case n < 10:
		out.DestinationNamedPort = pick(m, portNames)
	case n < 20:
		out.TCP = &v1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: port}
	case n < 30:
		out.UDP = &v1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: port}
	default:
		out.SCTP = &v1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: port}
	}
	return out
}

// packet returns a packet between two of the pods, or a pod and an address outside.
func (m maker) packet(pods []policyspec.End) policyspec.Packet {
	p := policyspec.Packet{From: pick(m, pods), To: pick(m, pods), Protocol: string(pick(m, append(protocols, "ICMP"))), Port: m.port(), Probe: m.chance(2)}
	switch m.IntN(12) {
	case 0:
		p.From = policyspec.End{IP: pick(m, outside)}
	case 1:
		p.To = policyspec.End{IP: pick(m, outside)}
	case 2:
		p.From = policyspec.End{IP: pick(m, outside), Shared: true}
	case 3:
		p.To.Shared = true
	}
	return p
}

// relabelled returns a pod with other labels.
func (m maker) relabelled(pod policyspec.End) policyspec.End {
	pod.Labels = maps.Clone(pod.Labels)
	key := pick(m, keys)
	if delete(pod.Labels, key); m.chance(60) {
		pod.Labels[key] = pick(m, words)
	}
	return pod
}
