// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package judgement

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/store/rows/policy"
	rules "github.com/alioth-net/alioth/store/rules/policy"
)

// side is a packet as one of its ends sees it.
type side struct {
	direction  policy.Direction
	packet     *rules.Packet
	self, peer *rules.End
}

// words of a direction: its name, and the field with the peers of a rule.
func (s *side) words() (direction, peers string) {
	if s.direction == policy.Egress {
		return "egress", "to"
	}
	return "ingress", "from"
}

// decision words the decision of a direction.
func (o *Objects) decision(in rules.Decision, s *side) *Decision {
	direction, _ := s.words()
	out := &Decision{Allowed: in.Allowed}
	if in.Cause == nil {
		out.Text = "no policy decides, and none isolates the pod for " + direction
		return out
	}
	row := o.policies[in.Cause.Key]
	out.Policy, out.RuleName, out.Tier = nameOf(in.Cause.Key), in.Cause.RuleName, tierOf(in.Cause.Tier)
	if in.Cause.Rule < 0 {
		out.Text = fmt.Sprintf("%s isolates the pod for %s, and no rule accepts the packet", out.Policy, direction)
		out.Remedy = o.remedy(in.Cause, row, s)
		return out
	}
	out.Rule = fmt.Sprintf("spec.%s[%d]", direction, in.Cause.Rule)
	verb := map[bool]string{true: "accepts", false: "denies"}[in.Allowed]
	out.Text = fmt.Sprintf("%s %s it by %s", out.Policy, verb, out.Rule)
	if out.RuleName != "" {
		out.Text += fmt.Sprintf(" (%q)", out.RuleName)
	}
	if in.Cause.Kind == policy.ClusterNetworkPolicy {
		out.Text += fmt.Sprintf(", tier %s, priority %d", out.Tier, row.Priority)
	}
	if !in.Allowed {
		out.Remedy = o.remedy(in.Cause, row, s)
	}
	return out
}

func tierOf(tier policy.Tier) string {
	switch tier {
	case policy.Admin:
		return string(v1alpha2.AdminTier)
	case policy.Baseline:
		return string(v1alpha2.BaselineTier)
	}
	return "" // policies of namespaces have no tier in the API
}

// remedy returns what would allow a refused packet.
func (o *Objects) remedy(cause *rules.Cause, row *policy.Policy, s *side) *Remedy {
	rule := o.rule(s)
	if cause.Tier == policy.Admin {
		rule = o.clusterRule(s)
	}
	if rule == "" {
		return &Remedy{Text: "a rule for the address of the other end, which the objects do not have"}
	}
	direction, _ := s.words()
	text := "this rule in " + nameOf(row.Key)
	switch cause.Tier {
	case policy.Admin:
		text = fmt.Sprintf("this rule before spec.%s[%d] of %s; the cluster's administrator can add it",
			direction, cause.Rule, nameOf(cause.Key))
	case policy.Baseline:
		text = fmt.Sprintf("a NetworkPolicy in namespace %s that selects the pod and has this rule; "+
			"it isolates the pod for %s, so it needs rules for all other %s too",
			s.self.Pod.Namespace, direction, direction)
	case policy.Namespaced:
	}
	return &Remedy{Text: text, Rule: rule}
}

// rule returns a rule of a NetworkPolicy that accepts the packet, "" if the peer's address is not
// known.
func (o *Objects) rule(s *side) string {
	peer, ok := o.peer(s)
	if !ok {
		return ""
	}
	protocol, port := corev1.Protocol(s.packet.Protocol), intstr.FromInt32(int32(s.packet.Port))
	direction, peers := s.words()
	return yamlOf(map[string]any{direction: []map[string]any{{
		peers:   []networkingv1.NetworkPolicyPeer{peer},
		"ports": []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: &port}},
	}}})
}

// peer returns a peer of a NetworkPolicy that matches the other end.
func (o *Objects) peer(s *side) (networkingv1.NetworkPolicyPeer, bool) {
	pod := s.peer.Pod
	switch {
	case s.peer.Shared && s.direction == policy.Ingress:
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}}, true
	case pod != nil:
		peer := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: lasting(pod.Labels)}}
		if pod.Namespace != s.self.Pod.Namespace {
			peer.NamespaceSelector = namespaceOf(pod)
		}
		return peer, true
	}
	ip := addressOf(s.peer)
	if !ip.IsValid() {
		return networkingv1.NetworkPolicyPeer{}, false
	}
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: only(ip)}}, true
}

// clusterRule returns a rule of a ClusterNetworkPolicy that accepts the packet, "" without one: its
// rules for ingress have no addresses.
func (o *Objects) clusterRule(s *side) string {
	peer := v1alpha2.ClusterNetworkPolicyEgressPeer{}
	switch ip := addressOf(s.peer); {
	case s.peer.Shared && s.direction == policy.Ingress:
		peer.Namespaces = &metav1.LabelSelector{}
	case s.peer.Pod != nil:
		peer.Pods = &v1alpha2.NamespacedPod{
			NamespaceSelector: *namespaceOf(s.peer.Pod),
			PodSelector:       metav1.LabelSelector{MatchLabels: lasting(s.peer.Pod.Labels)},
		}
	case s.direction == policy.Egress && ip.IsValid():
		peer.Networks = []v1alpha2.CIDR{v1alpha2.CIDR(only(ip))}
	default:
		return ""
	}
	direction, peers := s.words()
	port := map[string]any{"destinationPort": v1alpha2.Port{Number: int32(s.packet.Port)}}
	return yamlOf(map[string]any{direction: []map[string]any{{
		"action": v1alpha2.ClusterNetworkPolicyRuleActionAccept, peers: []v1alpha2.ClusterNetworkPolicyEgressPeer{peer},
		"protocols": []map[string]any{{strings.ToLower(s.packet.Protocol): port}},
	}}})
}

// only returns the range of one address.
func only(ip netip.Addr) string { return netip.PrefixFrom(ip, ip.BitLen()).String() }

// addressOf returns the address that a rule names: the virtual one lasts longer than a backend.
func addressOf(e *rules.End) netip.Addr {
	if e.Virtual.IsValid() {
		return e.Virtual
	}
	return e.IP
}

func namespaceOf(pod *rules.Identity) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: pod.Namespace}}
}

// passing has the keys of labels that differ between the pods of a workload, or between its
// versions.
var passing = []string{
	"pod-template-hash", "pod-template-generation", "controller-revision-hash", "controller-uid", "job-name",
	"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "batch.kubernetes.io/controller-uid",
	"batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index",
}

// lasting returns the labels that all pods of a workload have.
func lasting(labels map[string]string) map[string]string {
	kept := maps.Clone(labels)
	maps.DeleteFunc(kept, func(key, _ string) bool { return slices.Contains(passing, key) })
	return kept
}

// yamlOf returns values of API types as YAML.
func yamlOf(value any) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}
