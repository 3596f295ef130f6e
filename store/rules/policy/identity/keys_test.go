// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"testing"

	rows "github.com/alioth-net/alioth/store/rows/policy"
)

func has(key string) rows.Selector { return rows.Selector{{Key: key, Operator: rows.Exists}} }

// networkPolicy selects pods of its namespace by subject, and has peers of its own namespace, of
// all namespaces, and of namespaces with a label.
func networkPolicy(namespace, subject, near, far string) *rows.Policy {
	return &rows.Policy{
		Key: rows.Key{Kind: rows.NetworkPolicy, Namespace: namespace, Name: "p"}, Tier: rows.Namespaced,
		Subject: rows.Pods{Namespace: namespace, Pods: has(subject)},
		Rules: [2][]rows.Rule{rows.Egress: {{Action: rows.Accept, Peers: []rows.Peer{
			{Pods: &rows.Pods{Namespace: namespace, Pods: has(near)}},
			{Pods: &rows.Pods{Namespaces: has("team"), Pods: has(far)}},
			{Block: &rows.Block{}},
		}}}},
	}
}

func TestSelected_Policies_OnlyWhereTheyReach(t *testing.T) {
	k := NewKeys()
	k.Put(networkPolicy("a", "subject", "near", "far"))
	k.Put(&rows.Policy{Key: rows.Key{Kind: rows.ClusterNetworkPolicy, Name: "c"}, Subject: rows.Pods{Pods: has("cluster")}})
	k.Put(&rows.Policy{Key: rows.Key{Kind: rows.MultiNetworkPolicy, Namespace: "a", Name: "m"}, Subject: rows.Pods{Namespace: "a", Pods: has("multi")}})
	ofA, ofB, shared := Reach{Namespaces: []string{"a", "b"}}, Reach{Namespaces: []string{"b"}}, Reach{Namespaces: []string{"b"}, Everyone: true}
	for name, c := range map[string]struct {
		key, namespace string
		reach          Reach
		want           bool
	}{
		"a subject":                              {"subject", "a", ofA, true},
		"a peer of the namespace":                {"near", "a", ofA, true},
		"a peer of all namespaces":               {"far", "a", ofA, true},
		"of a cluster policy":                    {"cluster", "b", ofB, true},
		"the subjects of another namespace":      {"subject", "b", ofA, false},
		"the near peers of another namespace":    {"near", "b", ofA, false},
		"the far peers of one in the VPC":        {"far", "b", ofA, true},
		"the far peers of one in another VPC":    {"far", "b", ofB, false},
		"the far peers, for a shared service":    {"far", "b", shared, true},
		"a subject elsewhere, for a shared one":  {"subject", "b", shared, false},
		"a label of namespaces":                  {"team", "a", ofA, false},
		"an interface outside of VPCs":           {"multi", "a", ofA, false},
		"a key that no policy selects by at all": {"none", "a", shared, false},
	} {
		if got := k.Selected(c.key, c.namespace, c.reach); got != c.want {
			t.Errorf("%s: selected %t, want %t", name, got, c.want)
		}
	}
}

func TestKeys_ReplacedAndDeletedPolicies_LeaveNothing(t *testing.T) {
	k := NewKeys()
	k.Put(networkPolicy("a", "subject", "near", "far"))
	k.Put(networkPolicy("b", "subject", "subject", "far"))
	k.Put(networkPolicy("a", "other", "near", "far"))
	of := Reach{Namespaces: []string{"a", "b"}}
	if k.Selected("subject", "a", of) || !k.Selected("other", "a", of) || !k.Selected("subject", "b", of) {
		t.Error("the replaced policy still counts, or another one does not")
	}
	k.Delete(networkPolicy("a", "", "", "").Key)
	if !k.Selected("far", "a", of) {
		t.Error("the peers of the other policy do not count any more")
	}
	k.Delete(networkPolicy("b", "", "", "").Key)
	k.Delete(networkPolicy("b", "", "", "").Key)
	if len(k.policies)+len(k.within)+len(k.across) != 0 {
		t.Errorf("left: %v, %v, %v", k.policies, k.within, k.across)
	}
}
