// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/policy"
)

var equalRows = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOfNetworkPolicy_AllFields_Converted(t *testing.T) {
	got, err := OfNetworkPolicy(read[networkingv1.NetworkPolicy](t, `
metadata: {name: p, namespace: ns, uid: u}
spec:
  podSelector: {matchLabels: {app: web}, matchExpressions: [{key: role, operator: NotIn, values: [x]}]}
  policyTypes: [Ingress, Egress]
  ingress:
  - from: [{podSelector: {}}, {namespaceSelector: {}}, {ipBlock: {cidr: 10.0.0.5/8, except: [10.1.0.0/16]}}]
    ports: [{port: web}, {protocol: UDP, port: 53, endPort: 60}, {protocol: SCTP}]
  egress: [{}]
`))
	want := &policy.Policy{
		Meta: store.Meta{UID: "u"}, Key: policy.Key{Kind: policy.NetworkPolicy, Namespace: "ns", Name: "p"}, Tier: policy.Namespaced,
		Subject: policy.Pods{Namespace: "ns", Pods: policy.Selector{
			{Key: "app", Operator: policy.In, Values: []string{"web"}}, {Key: "role", Operator: policy.NotIn, Values: []string{"x"}},
		}},
		Isolates: [2]bool{true, true},
		Rules: [2][]policy.Rule{{{
			Action: policy.Accept,
			Peers: []policy.Peer{{Pods: &policy.Pods{Namespace: "ns"}}, {Pods: &policy.Pods{}}, {Block: &policy.Block{
				CIDR: netip.MustParsePrefix("10.0.0.0/8"), Except: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
			}}},
			Ports: []policy.Ports{{Protocol: "TCP", Name: "web"}, {Protocol: "UDP", First: 53, Last: 60}, {Protocol: "SCTP", Last: 65535}},
		}}, {{Action: policy.Accept, Everyone: true}}},
	}
	if diff := cmp.Diff(want, got, equalRows); diff != "" || err != nil {
		t.Errorf("%v, row (-want +got):\n%s", err, diff)
	}
}

func TestIsolates_WithoutTypes_ByRules(t *testing.T) {
	for want, spec := range map[[2]bool]networkingv1.NetworkPolicySpec{
		{true, false}: {},
		{true, true}:  {Egress: []networkingv1.NetworkPolicyEgressRule{{}}},
		{false, true}: {PolicyTypes: []networkingv1.PolicyType{"Egress"}},
	} {
		if got := isolates(&spec); got != want {
			t.Errorf("%+v: %v, want %v", spec, got, want)
		}
	}
}

func TestOfNetworkPolicy_UnreadableParts_AllowNothing(t *testing.T) {
	end := int32(10)
	for name, rule := range map[string]networkingv1.NetworkPolicyIngressRule{
		"CIDR":     {From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "bad"}}}},
		"except":   {From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: []string{"bad"}}}}},
		"mapped":   {From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "::ffff:10.0.0.0/104"}}}},
		"no peer":  {From: []networkingv1.NetworkPolicyPeer{{}}},
		"both":     {From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "::/0"}, PodSelector: &metav1.LabelSelector{}}}},
		"selector": {From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}}},
		"endPort":  {Ports: []networkingv1.NetworkPolicyPort{{EndPort: &end}}},
		"range":    {Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(80)), EndPort: &end}}},
	} {
		got, err := OfNetworkPolicy(&networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{rule}}})
		if err != nil || len(got.Problems) != 1 {
			t.Fatalf("%s: %v, problems %q", name, err, got.Problems)
		}
		if rule := got.Rules[policy.Ingress][0]; rule.Everyone || len(rule.Peers) > 0 {
			t.Errorf("%s: the rule matches: %+v", name, rule)
		}
	}
}

func TestOfMultiNetworkPolicy_Annotation_NamesNetworks(t *testing.T) {
	for text, want := range map[string][]string{"lan": {"ns/lan"}, "lan, m/wan": {"ns/lan", "m/wan"}, "": nil, " ,": nil} {
		got, err := OfMultiNetworkPolicy(&MultiNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Annotations: map[string]string{PolicyFor: text}}})
		if err != nil || !cmp.Equal(got.Networks, want) || (len(got.Problems) == 1) != (want == nil) {
			t.Errorf("%q: %v, networks %q, problems %q", text, err, got.Networks, got.Problems)
		}
	}
}

func TestOfClusterNetworkPolicy_AllFields_Converted(t *testing.T) {
	got, err := OfClusterNetworkPolicy(read[v1alpha2.ClusterNetworkPolicy](t, `
metadata: {name: p}
spec:
  tier: Baseline
  priority: 7
  subject: {namespaces: {matchLabels: {env: x}}}
  ingress:
  - {name: first, action: Pass, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: a}}}}], protocols: [{destinationNamedPort: web}]}
  egress:
  - action: Deny
    to: [{networks: [10.0.0.0/8, "fd00::/8"]}]
    protocols: [{tcp: {destinationPort: {number: 80}}}, {udp: {destinationPort: {range: {start: 5, end: 6}}}}, {sctp: {}}]
`))
	want := &policy.Policy{
		Key: policy.Key{Kind: policy.ClusterNetworkPolicy, Name: "p"}, Tier: policy.Baseline, Priority: 7,
		Subject: policy.Pods{Namespaces: policy.Selector{{Key: "env", Operator: policy.In, Values: []string{"x"}}}},
		Rules: [2][]policy.Rule{{{
			Name: "first", Action: policy.Pass, Ports: []policy.Ports{{Name: "web"}},
			Peers: []policy.Peer{{Pods: &policy.Pods{Pods: policy.Selector{{Key: "app", Operator: policy.In, Values: []string{"a"}}}}}},
		}}, {{
			Action: policy.Deny,
			Peers:  []policy.Peer{{Block: &policy.Block{CIDR: netip.MustParsePrefix("10.0.0.0/8")}}, {Block: &policy.Block{CIDR: netip.MustParsePrefix("fd00::/8")}}},
			Ports:  []policy.Ports{{Protocol: "TCP", First: 80, Last: 80}, {Protocol: "UDP", First: 5, Last: 6}, {Protocol: "SCTP", Last: 65535}},
		}}},
	}
	if diff := cmp.Diff(want, got, equalRows); diff != "" || err != nil {
		t.Errorf("%v, row (-want +got):\n%s", err, diff)
	}
}

// TestOfClusterNetworkPolicy_UnknownParts_FailClosed: network-policy-api asks for it.
func TestOfClusterNetworkPolicy_UnknownParts_FailClosed(t *testing.T) {
	for name, part := range map[string]string{
		"nodes": "to: [{nodes: {}}]", "domains": "to: [{domainNames: [example.org]}]", "no peer": "to: [{}]", "CIDR": "to: [{networks: [bad]}]",
		"protocol": "to: [{namespaces: {}}], protocols: [{}]",
	} {
		for action, closed := range map[string]policy.Rule{
			"Accept": {Action: policy.Accept}, "Deny": {Action: policy.Deny, Everyone: true}, "Pass": {Action: policy.Deny, Everyone: true},
			"Other": {Action: policy.Deny, Everyone: true},
		} {
			got, err := OfClusterNetworkPolicy(
				read[v1alpha2.ClusterNetworkPolicy](t, `spec: {tier: Admin, subject: {namespaces: {}}, egress: [{action: `+action+`, `+part+`}]}`),
			)
			if err != nil || len(got.Problems) != 1 || !cmp.Equal(got.Rules[policy.Egress], []policy.Rule{closed}) {
				t.Errorf("%s, %s: %v, %+v", name, action, err, got)
			}
		}
	}
}
