// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
)

const (
	today    = nmstatev1.NodeNetworkConfigurationPolicyKind
	formerly = nmstatev1.NodeNetConfPolicyKind
)

// onNode is a policy on a node.
type onNode struct{ node, kind, policy string }

func (o onNode) name() string { return EnactmentName(o.node, o.kind, o.policy) }

// sequences are all names of at most so many parts.
func sequences(parts []string, most int) []string {
	all := append([]string(nil), parts...)
	last := parts
	for range most - 1 {
		var next []string
		for _, begin := range last {
			for _, part := range parts {
				next = append(next, begin+"."+part)
			}
		}
		all, last = append(all, next...), next
	}
	return all
}

// TestEnactmentName_PoliciesAndNodes_Unique tries all policies on all nodes whose names have few
// parts. Some parts are equal to the endings of enactment names.
func TestEnactmentName_PoliciesAndNodes_Unique(t *testing.T) {
	long := strings.Repeat("l", 120)
	hash := hashed(today, "a")[1:]
	names := sequences([]string{"a", "netconf", "parts-1", "parts-2", "netconf-parts-2", hash, long}, 3)
	seen := map[string]onNode{}
	for _, node := range names {
		if len(node) > maxName-len(hash)-1 {
			continue
		}
		for _, policy := range names {
			if len(policy) > maxName {
				continue
			}
			for _, kind := range []string{today, formerly} {
				is := onNode{node, kind, policy}
				name := is.name()
				if other, ok := seen[name]; ok {
					t.Fatalf("%+v and %+v have the name %s", is, other, name)
				}
				seen[name] = is
				if len(name) > maxName {
					t.Fatalf("%+v: the name %s has %d bytes", is, name, len(name))
				}
				if got, ok := NodeOfEnactment(name, kind, policy); !ok || got != node {
					t.Fatalf("%+v: the node of %s is %q", is, name, got)
				}
			}
		}
	}
}

// FuzzNoTwoEnactmentsHaveTheSameName searches for collisions that no table has.
func FuzzNoTwoEnactmentsHaveTheSameName(f *testing.F) {
	f.Add("name-x", "y.bonds", "name-x.y", "bonds", false, false)
	f.Add("n", "p.netconf", "n", "p", false, true)
	f.Add("n.p", "netconf", "n", "p", false, true)
	f.Add("n", "p.q", "n.p.q", "parts-2", false, false)
	f.Fuzz(func(t *testing.T, node, policy, otherNode, otherPolicy string, netconf, otherNetconf bool) {
		kinds := map[bool]string{false: today, true: formerly}
		one, other := onNode{node, kinds[netconf], policy}, onNode{otherNode, kinds[otherNetconf], otherPolicy}
		for _, name := range []string{node, policy, otherNode, otherPolicy} {
			if len(validation.IsDNS1123Subdomain(name)) > 0 {
				return
			}
		}
		if one != other && one.name() == other.name() {
			t.Errorf("%+v and %+v have the name %s", one, other, one.name())
		}
		if got, ok := NodeOfEnactment(one.name(), one.kind, policy); !ok || got != node {
			t.Errorf("%+v: the node of %s is %q", one, one.name(), got)
		}
	})
}

func TestEnactmentName_EachPolicy_NodeReadable(t *testing.T) {
	long := strings.Repeat("p", 200)
	for _, tc := range []struct {
		is    onNode
		name  string
		early string
	}{
		{onNode{"n", today, "bonds"}, "n.bonds", "n.bonds"},
		{onNode{"n.example.com", today, "bonds"}, "n.example.com.bonds", "n.example.com.bonds"},
		{onNode{"n", formerly, "bonds"}, "n.bonds.netconf", "n.bonds.netconf"},
		{onNode{"n", today, "y.bonds"}, "n.y.bonds.parts-2", "n.y.bonds"},
		{onNode{"n", today, "netconf"}, "n.netconf.parts-1", "n.netconf"},
		{onNode{"n", today, "parts-1"}, "n.parts-1.parts-1", "n.parts-1"},
		{onNode{"n", formerly, "y.bonds"}, "n.y.bonds.netconf-parts-2", "n.y.bonds.netconf"},
		{onNode{strings.Repeat("n", 60), today, long}, strings.Repeat("n", 60) + hashed(today, long), ""},
	} {
		if got := tc.is.name(); got != tc.name {
			t.Errorf("%+v: got %s, want %s", tc.is, got, tc.name)
		}
		if tc.early == "" {
			continue
		}
		if got, ok := NodeOfEnactment(tc.early, tc.is.kind, tc.is.policy); !ok || got != tc.is.node {
			t.Errorf("the node of the former name %s is %q", tc.early, got)
		}
	}
	for _, not := range []string{"bonds", ".bonds", "n.vlans", "nbonds"} {
		if node, ok := NodeOfEnactment(not, today, "bonds"); ok {
			t.Errorf("%s is the name of an enactment of node %s", not, node)
		}
	}
}
