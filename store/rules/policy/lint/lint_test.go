// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lint_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/store/kinds/policies"
	"github.com/alioth-net/alioth/store/rows/policy"
	rules "github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/store/rules/policy/lint"
)

// pod returns an interface in a VPC of a pod with the label app and a port.
func pod(vpc, namespace, app, port string) lint.Pod {
	return lint.Pod{Identity: &rules.Identity{
		VPC: vpc, Namespace: namespace, NamespaceLabels: map[string]string{"team": namespace}, Labels: map[string]string{"app": app},
		Ports: []rules.Port{{Name: port, Protocol: "TCP", Port: 80}},
	}}
}

// world has two VPCs with the same range, and DNS behind a shared service.
func world() *lint.World {
	dns := pod("default", "kube-system", "dns", "dns")
	dns.Shared = true
	return &lint.World{
		Pods: []lint.Pod{
			pod("a", "shop", "cart", "http"), pod("a", "shop", "db", "sql"), pod("a", "report", "job", "http"),
			pod("b", "shop", "old", "http"), pod("b", "bank", "ledger", "http"), dns,
			{Identity: &rules.Identity{Network: "shop/storage", Namespace: "shop", Labels: map[string]string{"app": "db"}}},
		},
		Ranges: map[string][]netip.Prefix{
			"a": {netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("fd00::/48")}, "b": {netip.MustParsePrefix("10.0.0.0/16")},
		},
	}
}

// ofText reads the spec of a NetworkPolicy in namespace shop, of a ClusterNetworkPolicy if it has a
// tier, or of a MultiNetworkPolicy for network storage if it has no pod selector.
func ofText(t *testing.T, text string) *policy.Policy {
	t.Helper()
	var row *policy.Policy
	var err error
	switch {
	case strings.Contains(text, "tier:"):
		var in v1alpha2.ClusterNetworkPolicy
		if err := yaml.UnmarshalStrict([]byte("spec: "+text), &in); err != nil {
			t.Fatal(err)
		}
		row, err = policies.OfClusterNetworkPolicy(&in)
	default:
		var in networkingv1.NetworkPolicy
		if err := yaml.UnmarshalStrict([]byte("spec: "+text), &in); err != nil {
			t.Fatal(err)
		}
		in.Namespace = "shop"
		row, err = policies.OfNetworkPolicy(&in)
	}
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func TestFind_Policy_ExpectedFindings(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		// want has the reason, the field and a part of the text of each finding, with bars between.
		want []string
	}{
		"right": {`{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: cart}}}], ports: [{port: sql}]}]}`, nil},
		"a misspelled subject": {`{podSelector: {matchLabels: {app: dbx}}, ingress: [{ports: [{port: nothing}]}]}`, []string{
			"NoPodSelected|spec.podSelector|no pod in namespace shop has app=dbx (the values of app are: cart, db, old), so the policy has no effect",
		}},
		"labels that no pod has together": {`{podSelector: {matchExpressions: [{key: app, operator: In, values: [cart]}, {key: app, operator: NotIn, values: [cart]}]}}`, []string{
			"NoPodSelected|spec.podSelector|no pod in namespace shop has app=cart,app notin (cart)",
		}},
		"a key that no pod has": {`{podSelector: {matchExpressions: [{key: tier, operator: Exists}]}}`, []string{"NoPodSelected|spec.podSelector|has tier, so"}},
		"a peer that is not there": {`{podSelector: {matchLabels: {app: db}}, ingress: [{}, {from: [{podSelector: {matchLabels: {app: kart}}}]}]}`, []string{
			"NoPeerSelected|spec.ingress[1]|no pod in namespace shop has app=kart",
		}},
		"a namespace that is not there": {`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: none}}}]}]}`, []string{
			"NoPeerSelected|spec.ingress[0]|no namespace with pods has team=none",
		}},
		"a peer in another VPC": {`{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: bank}}}]}]}`, []string{
			"PeerInOtherVPC|spec.ingress[0]|the pods with any labels in namespaces with team=bank are in VPC b, and the pods of the policy in VPC a",
		}},
		"a peer in one of two VPCs": {`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: bank}}}]}]}`, nil},
		"DNS in the default VPC":    {`{podSelector: {}, egress: [{to: [{namespaceSelector: {matchLabels: {team: kube-system}}}], ports: [{port: dns}]}], policyTypes: [Egress]}`, nil},
		"a port of the wrong end": {`{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: cart}}}], ports: [{port: http}]}]}`, []string{
			"NoPortNamed|spec.ingress[0]|no pod that the policy selects has a port with the name http/TCP (they name sql/TCP)",
		}},
		"a port of the wrong protocol": {`{podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: sql, protocol: UDP}]}]}`, []string{"NoPortNamed|spec.ingress[0]|sql/UDP"}},
		"a port of no peer": {`{podSelector: {matchLabels: {app: cart}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: sqll}]}]}`, []string{
			"NoPortNamed|spec.egress[0]|no pod that the rule selects has a port with the name sqll/TCP",
		}},
		"a port of no peer at all": {`{podSelector: {matchLabels: {app: cart}}, policyTypes: [Egress], egress: [{ports: [{port: dns}, {port: none}]}]}`, []string{"NoPortNamed|spec.egress[0]|none/TCP"}},
		"a range of pods": {`{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{ipBlock: {cidr: 10.0.3.0/24}}, {ipBlock: {cidr: "fd00::/64"}}]}]}`, []string{
			"RangeInVPC|spec.ingress[0]|10.0.3.0/24 is within VPC a (10.0.0.0/16)", "RangeInVPC|spec.ingress[0]|fd00::/64 is within VPC a (fd00::/48)",
		}},
		"everything but the pods": {`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/16]}}]}]}`, nil},
		"a range outside":         {`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 203.0.113.0/24}}]}]}`, nil},
		"a cluster policy":        {`{tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {team: none}}}}`, []string{"NoPodSelected|spec.subject|no namespace with pods has team=none"}},
		"a peer of a cluster policy": {`{tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: x}}}}]}]}`, []string{
			"NoPeerSelected|spec.ingress[0]|no pod has app=x",
		}},
	} {
		t.Run(name, func(t *testing.T) { check(t, world().Find(ofText(t, c.spec)), c.want) })
	}
}

func check(t *testing.T, found []lint.Finding, want []string) {
	t.Helper()
	if len(found) != len(want) {
		t.Fatalf("found %q, want %q", found, want)
	}
	for i, text := range want {
		parts := strings.Split(text, "|")
		if f := found[i]; string(f.Reason) != parts[0] || f.Field != parts[1] || !strings.Contains(f.Text, parts[2]) {
			t.Errorf("found %q, want %q", f, text)
		}
	}
}

// TestFind_NamespacesNotRead_NoFindingAboutThem lints with the pods of one namespace alone.
func TestFind_NamespacesNotRead_NoFindingAboutThem(t *testing.T) {
	w := world()
	w.Namespaces = []string{"shop"}
	w.Pods = slices.DeleteFunc(w.Pods, func(pod lint.Pod) bool { return pod.Namespace != "shop" })
	for spec, want := range map[string][]string{
		`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: none}}}]}]}`:                                          nil,
		`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}], ports: [{port: dns}]}, {ports: [{port: dns}]}]}`: nil,
		`{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: kart}}}]}]}`:                                                 {"NoPeerSelected|spec.ingress[0]|kart"},
		`{tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {team: none}}}}`:                                                    nil,
	} {
		check(t, w.Find(ofText(t, spec)), want)
	}
}

// TestFind_OtherNetwork_OnlyItsInterfacesCount lints a policy for a network outside of VPCs.
func TestFind_OtherNetwork_OnlyItsInterfacesCount(t *testing.T) {
	row := ofText(t, `{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: cart}}}]}]}`)
	row.Kind, row.Networks = policy.MultiNetworkPolicy, []string{"shop/storage"}
	check(t, world().Find(row), []string{"NoPeerSelected|spec.ingress[0]|has an interface that the policy is for"})
	row.Networks = []string{"shop/backup"}
	check(t, world().Find(row), []string{"NoPodSelected|spec.podSelector|has an interface that the policy is for"})
}
