// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/policy"
)

// PolicyFor is the annotation with the networks that a MultiNetworkPolicy applies to.
const PolicyFor = "k8s.v1.cni.cncf.io/policy-for"

// MultiNetworkPolicy is a NetworkPolicy for networks outside of VPCs, of k8s.cni.cncf.io/v1beta1.
// Its spec has the fields of a NetworkPolicy.
type MultiNetworkPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec networkingv1.NetworkPolicySpec `json:"spec"`
}

// OfNetworkPolicy converts a NetworkPolicy. It fails if the policy selects no readable set of pods.
func OfNetworkPolicy(in *networkingv1.NetworkPolicy) (*policy.Policy, error) {
	return namespaced(policy.NetworkPolicy, &in.ObjectMeta, &in.Spec)
}

// OfMultiNetworkPolicy converts a MultiNetworkPolicy. One without networks applies nowhere.
func OfMultiNetworkPolicy(in *MultiNetworkPolicy) (*policy.Policy, error) {
	row, err := namespaced(policy.MultiNetworkPolicy, &in.ObjectMeta, &in.Spec)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(in.Annotations[PolicyFor], ",") {
		name := strings.TrimSpace(part)
		if name == "" {
			continue
		}
		if !strings.Contains(name, "/") {
			name = in.Namespace + "/" + name
		}
		row.Networks = append(row.Networks, name)
	}
	if len(row.Networks) == 0 {
		row.Problems = append(row.Problems, "the annotation "+PolicyFor+" names no network")
	}
	return row, nil
}

// namespaced converts what NetworkPolicy and MultiNetworkPolicy have in common.
func namespaced(
	kind policy.Kind,
	meta *metav1.ObjectMeta,
	spec *networkingv1.NetworkPolicySpec,
) (*policy.Policy, error) {
	subject, err := selector(&spec.PodSelector)
	if err != nil {
		return nil, err
	}
	row := &policy.Policy{
		Meta: values.Meta(meta), Key: policy.Key{Kind: kind, Namespace: meta.Namespace, Name: meta.Name},
		Tier: policy.Namespaced, Subject: policy.Pods{Namespace: meta.Namespace, Pods: subject},
		Isolates: isolates(spec),
	}
	c := converter{namespace: meta.Namespace}
	for _, in := range spec.Ingress {
		row.Rules[policy.Ingress] = append(row.Rules[policy.Ingress], c.rule(in.From, in.Ports))
	}
	for _, in := range spec.Egress {
		row.Rules[policy.Egress] = append(row.Rules[policy.Egress], c.rule(in.To, in.Ports))
	}
	row.Problems = c.problems
	return row, nil
}

// isolates returns the directions that a policy isolates. Without policyTypes it isolates ingress,
// and egress if it has rules for it.
func isolates(spec *networkingv1.NetworkPolicySpec) [2]bool {
	if len(spec.PolicyTypes) == 0 {
		return [2]bool{policy.Ingress: true, policy.Egress: len(spec.Egress) > 0}
	}
	return [2]bool{
		policy.Ingress: slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeIngress),
		policy.Egress:  slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeEgress),
	}
}

// converter converts rules of a namespace, and collects their problems.
type converter struct {
	namespace string
	problems  []string
}

func (c *converter) problem(err error) { c.problems = append(c.problems, err.Error()) }

// rule converts a rule. A peer or port that can't be read matches nothing.
func (c *converter) rule(peers []networkingv1.NetworkPolicyPeer, in []networkingv1.NetworkPolicyPort) policy.Rule {
	rule := policy.Rule{Action: policy.Accept, Everyone: len(peers) == 0}
	for i := range peers {
		peer, err := c.peer(&peers[i])
		if err != nil {
			c.problem(err)
			continue
		}
		rule.Peers = append(rule.Peers, peer)
	}
	for i := range in {
		one, err := portsOf(&in[i])
		if err != nil {
			c.problem(err)
			continue
		}
		rule.Ports = append(rule.Ports, one)
	}
	if len(in) > 0 && len(rule.Ports) == 0 {
		rule.Everyone, rule.Peers = false, nil
	}
	return rule
}

func (c *converter) peer(in *networkingv1.NetworkPolicyPeer) (policy.Peer, error) {
	switch {
	case in.IPBlock != nil && in.PodSelector == nil && in.NamespaceSelector == nil:
		return block(in.IPBlock)
	case in.IPBlock != nil, in.PodSelector == nil && in.NamespaceSelector == nil:
		return policy.Peer{}, errors.New("a peer has either ipBlock or selectors")
	}
	pods, err := selector(cmp.Or(in.PodSelector, &metav1.LabelSelector{}))
	if err != nil {
		return policy.Peer{}, err
	}
	if in.NamespaceSelector == nil {
		return policy.Peer{Pods: &policy.Pods{Namespace: c.namespace, Pods: pods}}, nil
	}
	namespaces, err := selector(in.NamespaceSelector)
	return policy.Peer{Pods: &policy.Pods{Namespaces: namespaces, Pods: pods}}, err
}

func block(in *networkingv1.IPBlock) (policy.Peer, error) {
	cidr, err := prefix(in.CIDR)
	if err != nil {
		return policy.Peer{}, err
	}
	out := &policy.Block{CIDR: cidr}
	for _, text := range in.Except {
		except, err := prefix(text)
		if err != nil {
			return policy.Peer{}, err
		}
		out.Except = append(out.Except, except)
	}
	return policy.Peer{Block: out}, nil
}

// portsOf converts a port. The protocol is TCP unless it is set.
func portsOf(in *networkingv1.NetworkPolicyPort) (policy.Ports, error) {
	protocol := string(corev1.ProtocolTCP)
	if in.Protocol != nil {
		protocol = string(*in.Protocol)
	}
	switch {
	case in.Port == nil && in.EndPort == nil:
		return policy.Ports{Protocol: protocol, Last: lastPort}, nil
	case in.Port == nil:
		return policy.Ports{}, errors.New("endPort needs a port")
	case in.Port.Type == intstr.String && in.EndPort != nil:
		return policy.Ports{}, errors.New("endPort needs a port with a number")
	case in.Port.Type == intstr.String:
		return policy.Ports{Protocol: protocol, Name: in.Port.StrVal}, nil
	case in.EndPort != nil:
		return ports(protocol, in.Port.IntVal, *in.EndPort)
	}
	return ports(protocol, in.Port.IntVal, in.Port.IntVal)
}

// sorted puts requirements into one order, so that equal selectors have equal rows.
func sorted(in policy.Selector) policy.Selector {
	slices.SortFunc(in, func(a, b policy.Requirement) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values))
	})
	return in
}
