// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/policy"
)

var (
	tiers   = map[v1alpha2.Tier]policy.Tier{v1alpha2.AdminTier: policy.Admin, v1alpha2.BaselineTier: policy.Baseline}
	actions = map[v1alpha2.ClusterNetworkPolicyRuleAction]policy.Action{
		v1alpha2.ClusterNetworkPolicyRuleActionAccept: policy.Accept,
		v1alpha2.ClusterNetworkPolicyRuleActionDeny:   policy.Deny,
		v1alpha2.ClusterNetworkPolicyRuleActionPass:   policy.Pass,
	}
)

// OfClusterNetworkPolicy converts a ClusterNetworkPolicy. It fails if tier or subject can't be read.
func OfClusterNetworkPolicy(in *v1alpha2.ClusterNetworkPolicy) (*policy.Policy, error) {
	tier, ok := tiers[in.Spec.Tier]
	if !ok {
		return nil, fmt.Errorf("tier %s is not known", quote.Text(in.Spec.Tier))
	}
	subject, err := clusterPods(clusterPeer{Namespaces: in.Spec.Subject.Namespaces, Pods: in.Spec.Subject.Pods})
	if err != nil {
		return nil, fmt.Errorf("read subject: %w", err)
	}
	row := &policy.Policy{
		Meta: values.Meta(in), Key: policy.Key{Kind: policy.ClusterNetworkPolicy, Name: in.Name},
		Tier: tier, Priority: in.Spec.Priority, Subject: *subject,
	}
	var c converter
	for i := range in.Spec.Ingress {
		one := &in.Spec.Ingress[i]
		rule := clusterRule{Name: one.Name, Action: one.Action, Protocols: one.Protocols}
		for _, from := range one.From {
			rule.Peers = append(rule.Peers, clusterPeer{Namespaces: from.Namespaces, Pods: from.Pods})
		}
		row.Rules[policy.Ingress] = append(row.Rules[policy.Ingress], c.clusterRule(&rule))
	}
	for i := range in.Spec.Egress {
		one := &in.Spec.Egress[i]
		rule := clusterRule{Name: one.Name, Action: one.Action, Protocols: one.Protocols, Peers: one.To}
		row.Rules[policy.Egress] = append(row.Rules[policy.Egress], c.clusterRule(&rule))
	}
	row.Problems = c.problems
	return row, nil
}

// clusterPeer is a peer of either direction: egress has all fields of ingress.
type clusterPeer = v1alpha2.ClusterNetworkPolicyEgressPeer

// clusterRule is a rule of either direction.
type clusterRule struct {
	Name      string
	Action    v1alpha2.ClusterNetworkPolicyRuleAction
	Peers     []clusterPeer
	Protocols []v1alpha2.ClusterNetworkPolicyProtocol
}

// clusterRule converts a rule. A rule with a part that can't be read fails closed.
func (c *converter) clusterRule(in *clusterRule) policy.Rule {
	rule := policy.Rule{Name: in.Name, Action: actions[in.Action]}
	err := fill(&rule, in)
	if rule.Action == 0 {
		rule.Action, err = policy.Deny, fmt.Errorf("action %s is not known", quote.Text(in.Action))
	}
	if err == nil {
		return rule
	}
	c.problem(err)
	if rule.Action == policy.Accept {
		return policy.Rule{Name: rule.Name, Action: policy.Accept}
	}
	return policy.Rule{Name: rule.Name, Action: policy.Deny, Everyone: true}
}

// fill adds the peers and ports of a rule.
func fill(rule *policy.Rule, in *clusterRule) error {
	for _, peer := range in.Peers {
		peers, err := clusterPeers(peer)
		if err != nil {
			return err
		}
		rule.Peers = append(rule.Peers, peers...)
	}
	for i := range in.Protocols {
		one, err := clusterPorts(&in.Protocols[i])
		if err != nil {
			return err
		}
		rule.Ports = append(rule.Ports, one)
	}
	return nil
}

// clusterPeers converts a peer. A peer with several ranges becomes as many.
func clusterPeers(in clusterPeer) ([]policy.Peer, error) {
	switch {
	case in.Nodes != nil:
		return nil, errors.New("peers by nodes are not supported: name their ranges in networks")
	case len(in.DomainNames) > 0:
		return nil, errors.New("peers by domainNames are not supported: name their ranges in networks")
	case len(in.Networks) == 0:
		pods, err := clusterPods(in)
		return []policy.Peer{{Pods: pods}}, err
	}
	var peers []policy.Peer
	for _, text := range in.Networks {
		cidr, err := prefix(string(text))
		if err != nil {
			return nil, err
		}
		peers = append(peers, policy.Peer{Block: &policy.Block{CIDR: cidr}})
	}
	return peers, nil
}

// clusterPods converts a selection of pods.
func clusterPods(in clusterPeer) (*policy.Pods, error) {
	switch {
	case in.Pods != nil && in.Namespaces == nil:
		namespaces, err := selector(&in.Pods.NamespaceSelector)
		if err != nil {
			return nil, err
		}
		pods, err := selector(&in.Pods.PodSelector)
		return &policy.Pods{Namespaces: namespaces, Pods: pods}, err
	case in.Namespaces != nil && in.Pods == nil:
		namespaces, err := selector(in.Namespaces)
		return &policy.Pods{Namespaces: namespaces}, err
	}
	return nil, errors.New("want exactly one of namespaces, pods and networks")
}

// clusterPorts converts the ports of a protocol.
func clusterPorts(in *v1alpha2.ClusterNetworkPolicyProtocol) (policy.Ports, error) {
	switch {
	case in.TCP != nil:
		return clusterPort(corev1.ProtocolTCP, in.TCP.DestinationPort)
	case in.UDP != nil:
		return clusterPort(corev1.ProtocolUDP, in.UDP.DestinationPort)
	case in.SCTP != nil:
		return clusterPort(corev1.ProtocolSCTP, in.SCTP.DestinationPort)
	case in.DestinationNamedPort != "":
		return policy.Ports{Name: in.DestinationNamedPort}, nil
	}
	return policy.Ports{}, errors.New("want one of tcp, udp, sctp and destinationNamedPort")
}

func clusterPort(protocol corev1.Protocol, in *v1alpha2.Port) (policy.Ports, error) {
	switch {
	case in == nil:
		return policy.Ports{Protocol: string(protocol), Last: lastPort}, nil
	case in.Range != nil:
		return ports(string(protocol), in.Range.Start, in.Range.End)
	}
	return ports(string(protocol), in.Number, in.Number)
}
