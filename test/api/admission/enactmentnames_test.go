// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
)

type anEnactment = *nmstatev1beta1.NodeNetworkConfigurationEnactment

// Kinds of policies.
const (
	today    = nmstatev1.NodeNetworkConfigurationPolicyKind
	formerly = nmstatev1.NodeNetConfPolicyKind
)

// enactmentNamed returns an enactment of a node with any name.
func enactmentNamed(node, name string) anEnactment {
	return &nmstatev1beta1.NodeNetworkConfigurationEnactment{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{nmstatev1.NodeLabel: nmstatev1beta1.LabelValue(node), nmstatev1.PolicyLabel: "p"},
	}}
}

// naming names the policy of an enactment.
func naming(kind, policy string) func(anEnactment) {
	return func(e anEnactment) { named(e, kind, policy) }
}

// TestEnactmentName_OtherPolicyOrNode_Refused: its node is read from both, so that a daemon could
// write in the name of another node otherwise.
func TestEnactmentName_OtherPolicyOrNode_Refused(t *testing.T) {
	admin := start(t)
	type edit = change[anEnactment]
	long := strings.Repeat("l", 245)
	object, old, plain, cut := enactment(
		"name-x",
		"y.bonds",
	), enactmentNamed(
		"name-x",
		"name-x.old.netconf",
	), enactment(
		"name-x",
		"bonds",
	), enactment(
		"name-x",
		long,
	)
	for _, one := range []anEnactment{object, old, plain, cut} {
		establish(t, admin, one)
	}
	const ofPolicy = "must be the name of a node and"
	const either = "status.policy" // both policies refuse it, and the API server names one of them
	const notOwn = "may write enactments of its own node only"
	own, domain := daemonOn("name-x"), daemonOn("name-x.y")
	runChanges(t, patched("status",
		edit{name: "the policy of its name", who: own, object: object, edit: naming(today, "y.bonds")},
		edit{name: "a policy without a dot", who: own, object: plain, edit: naming(today, "bonds")},
		edit{name: "a policy with a part of the name", who: own, object: object, edit: naming(today, "bonds"), refused: either},
		edit{name: "a policy with the whole name", who: own, object: object, edit: naming(today, "y.bonds.parts-2"), refused: either},
		edit{name: "another policy", who: own, object: object, edit: naming(today, "vlans"), refused: either},
		edit{name: "the policy of the other kind", who: own, object: object, edit: naming(formerly, "y.bonds"), refused: either},
		edit{name: "one of the early design", who: own, object: old, edit: naming(formerly, "old")},
		edit{name: "one of today's with that name", who: own, object: old, edit: naming(today, "old.netconf"), refused: either},
		edit{name: "a policy with a long name", who: own, object: cut, edit: naming(today, long)},
		edit{name: "a short policy by a hash", who: own, object: cut, edit: naming(today, "bonds"), refused: either},
		edit{name: "the policy of another's name, of a node in its domain", who: domain, object: object, edit: naming(today, "y.bonds"), refused: notOwn},
		edit{name: "another policy, by the operator", who: operator(), object: object, edit: naming(today, "vlans"), refused: ofPolicy},
		edit{name: "no node, by an administrator", who: clusterAdmin(), object: plain, edit: naming(today, "name-x.bonds"), refused: ofPolicy},
		edit{name: "its policy, by the operator", who: operator(), object: object, edit: naming(today, "y.bonds")},
	))
}

// TestEnactmentPolicy_Removed_Refused: one without a policy would have no row, and its slot would
// count for nobody.
func TestEnactmentPolicy_Removed_Refused(t *testing.T) {
	admin := start(t)
	type edit = change[anEnactment]
	object := enactment("kept-x", "bonds")
	establish(t, admin, object)
	named(object, today, "bonds")
	if err := admin.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	var all []attempt
	for who, user := range map[string]user{"its node": daemonOn("kept-x"), "the operator": operator(), "an administrator": clusterAdmin()} {
		for what, patch := range map[string]client.Patch{
			"no policy":          client.RawPatch(types.MergePatchType, []byte(`{"status":{"policy":null}}`)),
			"no policy by steps": client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/status/policy"}]`)),
			"no status":          client.RawPatch(types.MergePatchType, []byte(`{"status":null}`)),
		} {
			all = append(all, attempt{what + ", by " + who, user, func(ctx context.Context, c client.Client) error {
				return c.Status().Patch(ctx, enactment("kept-x", "bonds"), patch)
			}, "status.policy can't be removed"})
		}
	}
	run(t, all)
	runChanges(t, patched("status", edit{
		name: "a successor of the policy", who: daemonOn("kept-x"), object: object, edit: func(e anEnactment) { e.Status.Policy.UID = "successor" },
	}))
}

// TestEnactmentName_OtherNodeToken_Refused tries all names of one node's enactments with the token
// of another node. The name of one node is a part of the other's name.
func TestEnactmentName_OtherNodeToken_Refused(t *testing.T) {
	start(t)
	nodes := []string{"taken-x", "taken-x.y", "taken-x.parts-2"}
	const notOwn = "may write enactments of its own node only"
	var all []attempt
	for _, policy := range []string{"bonds", "y.bonds", "netconf", "parts-2", strings.Repeat("l", 243)} {
		for _, kind := range []string{today, formerly} {
			for _, node := range nodes {
				name := nmstatev1beta1.EnactmentName(node, kind, policy)
				for _, who := range nodes {
					refused := notOwn
					if who == node {
						refused = ""
					}
					all = append(all, applied(t, who+" makes "+name, daemonOn(who), enactmentNamed(who, name), refused)...)
				}
			}
		}
	}
	for _, name := range []string{"taken-x.y.bonds", "taken-x.y.bonds.netconf", "taken-x.y.parts-2", "taken-x.a.b.parts-3", "taken-x.bonds.netconf-parts-2", "taken-x"} {
		all = append(all, applied(t, "taken-x makes "+name, daemonOn("taken-x"), enactmentNamed("taken-x", name), notOwn)...)
	}
	run(t, all)
}

// formerNode is a node with enactments of an earlier version. Another node is in its domain,
// and one of these enactments has the name that the policy bonds has there today.
const formerNode = "former-x"

// makeFormerEnactments makes the enactments that earlier versions made. Admission refuses them
// today, so this comes before the policies.
func makeFormerEnactments(t *testing.T, admin client.Client) {
	t.Helper()
	for policy, kind := range map[string]string{"y.bonds": today, "y.old": formerly} {
		ending := map[string]string{today: "", formerly: ".netconf"}[kind]
		object := enactmentNamed(formerNode, formerNode+"."+policy+ending)
		establish(t, admin, object)
		named(object, kind, policy)
		if err := admin.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	establish(t, admin, enactmentNamed(formerNode, formerNode+".y.cut")) // its maker ended before it wrote the status
}

// TestEnactment_FormerName_StaysWithItsNode: its node uses it, until it has replaced it.
func TestEnactment_FormerName_StaysWithItsNode(t *testing.T) {
	start(t)
	type edit = change[anEnactment]
	own, domain := daemonOn(formerNode), daemonOn(formerNode+".y")
	bonds, old, unnamed := formerNode+".y.bonds", formerNode+".y.old.netconf", formerNode+".y.cut"
	object := func(name string) anEnactment { return enactmentNamed(formerNode, name) }
	overruled := func(kind, policy string) func(anEnactment) {
		return func(e anEnactment) {
			named(e, kind, policy)
			e.Status.Overruled = "x"
		}
	}
	const notOwn, either = "may write enactments of its own node only", "status.policy"
	runChanges(t, slices.Concat(patched("status",
		edit{name: "its own status", who: own, object: object(bonds), edit: overruled(today, "y.bonds")},
		edit{name: "its own status, of the early design", who: own, object: object(old), edit: overruled(formerly, "y.old")},
		edit{name: "its own, for another policy", who: own, object: object(bonds), edit: overruled(today, "bonds"), refused: either},
		edit{name: "the status by another node", who: domain, object: object(bonds), edit: overruled(today, "y.bonds"), refused: notOwn},
		edit{name: "the status by another node, for its policy", who: domain, object: object(bonds), edit: overruled(today, "bonds"), refused: notOwn},
		edit{name: "a slot by the operator", who: operator(), object: object(bonds), edit: func(e anEnactment) {
			named(e, today, "y.bonds")
			e.Status.Slot = &nmstatev1beta1.Slot{Holder: formerNode, Expires: metav1.NowMicro()}
		}},
		edit{name: "one without a status by the node that made it", who: own, object: object(unnamed), edit: naming(today, "y.cut"), refused: "denied request"},
	), patched("",
		edit{name: "one without a status as that of the node that has its name today", who: domain, object: object(unnamed), edit: func(e anEnactment) {
			e.Labels[nmstatev1.NodeLabel] = nmstatev1beta1.LabelValue(formerNode + ".y")
		}},
		edit{name: "one with a status as that of another node", who: domain, object: object(bonds), edit: func(e anEnactment) {
			e.Labels[nmstatev1.NodeLabel] = nmstatev1beta1.LabelValue(formerNode + ".y")
		}, refused: either},
	)))
	run(t, []attempt{
		{"its end by its node", own, deleting(object(bonds)), ""},
		{"its end by its node, of the early design", own, deleting(object(old)), ""},
		{"its end by another node", domain, deleting(object(bonds)), either},
		{"the successor of its node", own, creating(enactment(formerNode, "y.bonds")), ""},
	})
}
