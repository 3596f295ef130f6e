// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// networkClaim returns a claim with a spec.
func networkClaim(kind, name string, spec map[string]any) *unstructured.Unstructured {
	claim := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	claim.SetAPIVersion("alioth.dev/v1alpha1")
	claim.SetKind(kind)
	claim.SetName(name)
	return claim
}

// claimed is the namespace of the pods with claims.
const claimed = "claimed"

func attachmentClaim(pod string) *unstructured.Unstructured {
	claim := networkClaim("AttachmentClaim", pod+".net1", map[string]any{
		"pod": map[string]any{"name": "web-0", "uid": pod}, "node": "node-a", "interface": "net1", "driver": "macvlan",
		"network":    map[string]any{"group": "danm.k8s.io", "kind": "DanmNet", "namespace": claimed, "name": "internal", "uid": "77"},
		"configHash": strings.Repeat("a", 64),
	})
	claim.SetNamespace(claimed)
	return claim
}

func hostVNIClaim() *unstructured.Unstructured {
	return networkClaim("HostVNIClaim", "vlan-300.ens4", map[string]any{
		"type": "vlan", "vni": int64(300), "device": "ens4",
		"network": map[string]any{"group": "danm.k8s.io", "kind": "TenantNetwork", "namespace": "default", "name": "internal", "uid": "77"},
	})
}

func domainClaim() *unstructured.Unstructured {
	return networkClaim("DomainClaim", "domain-16777216", map[string]any{
		"number": int64(16777216), "network": map[string]any{"kind": "DanmNet", "namespace": "default", "name": "internal", "uid": "77"},
	})
}

// TestNetworkClaims_CreatorNotOperator_Refused: the owner of a namespace can have all rights in it,
// and a node attaches every pod with a claim.
func TestNetworkClaims_CreatorNotOperator_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace(claimed, nil))
	owner := person("claims-owner")
	create(t, admin, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "claims-everything"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"alioth.dev"}, Resources: []string{"attachmentclaims"}, Verbs: []string{"create", "patch", "get", "update", "delete"}},
	}})
	grantIn(t, admin, claimed, owner, "claims-everything")
	held, number, domain := attachmentClaim("held"), hostVNIClaim(), domainClaim()
	create(t, as(t, operator()), held)
	create(t, as(t, operator()), number)
	create(t, as(t, operator()), domain)
	deletion := func(object client.Object, options ...client.DeleteOption) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, object, append(options, client.DryRunAll)...)
		}
	}
	uid, domainUID := number.GetUID(), domain.GetUID()
	// A claim of release 0.1 has no configuration, and CEL permits to add one.
	configure := func(ctx context.Context, c client.Client) error {
		return c.Patch(
			ctx,
			held.DeepCopy(),
			client.RawPatch(types.MergePatchType, []byte(`{"spec":{"config":{"name":"net1","link":{"vlan":200}}}}`)),
			client.DryRunAll,
		)
	}
	const written = "only the Alioth operator writes the spec"
	const refused = "only the Alioth operator creates "
	run(t, slices.Concat(
		creations(t, "an AttachmentClaim, by the namespace's owner", owner, attachmentClaim("forged"), refused+"attachmentclaims"),
		creations(t, "an AttachmentClaim, by an administrator", clusterAdmin(), attachmentClaim("forged"), refused+"attachmentclaims"),
		creations(t, "an AttachmentClaim, by a daemon", daemonOn("node-a"), attachmentClaim("forged"), "cannot"),
		creations(t, "a HostVNIClaim, by an administrator", clusterAdmin(), networkClaim("HostVNIClaim", "vlan-301.ens4", map[string]any{
			"type": "vlan", "vni": int64(301), "device": "ens4", "network": number.Object["spec"].(map[string]any)["network"],
		}), refused+"hostvniclaims"),
		creations(t, "a DomainClaim, by an administrator", clusterAdmin(), networkClaim("DomainClaim", "domain-16777217", map[string]any{
			"number": int64(16777217), "network": domain.Object["spec"].(map[string]any)["network"],
		}), refused+"domainclaims"),
		[]attempt{
			{"an AttachmentClaim is configured by the operator", operator(), configure, ""},
			{"an AttachmentClaim is configured by the namespace's owner", owner, configure, written},
			{"an AttachmentClaim is configured by an administrator", clusterAdmin(), configure, written},
			{"an AttachmentClaim is configured by a daemon", daemonOn("node-a"), configure, "cannot"},
			{"an AttachmentClaim is deleted by the operator", operator(), deletion(held), ""},
			{"an AttachmentClaim is deleted by the garbage collector", clusterAdmin(), deletion(held), ""},
			{"an AttachmentClaim is deleted by a daemon", daemonOn("node-a"), deletion(held), "cannot"},
			{"a HostVNIClaim by its name", clusterAdmin(), deletion(number), "the operator releases it when its TenantNetwork is gone"},
			{"a DomainClaim by its name", clusterAdmin(), deletion(domain), "the operator releases it when its network and the attachments to it are gone"},
			{"a DomainClaim, by a daemon", daemonOn("node-a"), deletion(domain), "cannot"},
			{"the DomainClaim that is meant", operator(), deletion(domain, client.Preconditions{UID: &domainUID}), ""},
			{"the HostVNIClaim that is meant", operator(), deletion(number, client.Preconditions{UID: &uid}), ""},
		},
	))
}

// TestInterfaceRelease_NotPodNode_Refused: a network, and its VLAN, may go to others then.
func TestInterfaceRelease_NotPodNode_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("releases", nil))
	owner := person("releases-owner")
	create(t, admin, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "releases-everything"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"alioth.dev"}, Resources: []string{"attachmentclaims", "attachmentclaims/status"}, Verbs: []string{"patch", "get", "update"}},
	}})
	grantIn(t, admin, "releases", owner, "releases-everything")
	kept := func(name string) *unstructured.Unstructured {
		claim := attachmentClaim(name)
		claim.SetNamespace("releases")
		claim.SetFinalizers([]string{v1alpha1.Finalizer})
		create(t, as(t, operator()), claim)
		return claim
	}
	deleted, living := kept("deleted"), kept("living")
	if err := admin.Delete(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	report := func(object *unstructured.Unstructured) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			return c.Status().Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"released":true}}`)), client.DryRunAll)
		}
	}
	strip := func(object *unstructured.Unstructured) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)), client.DryRunAll)
		}
	}
	run(t, []attempt{
		{"the daemon of the node reports a release", daemonOn("node-a"), report(deleted), ""},
		{"another node's daemon does", daemonOn("node-b"), report(deleted), "may report for pods of its own node only"},
		{"the daemon does while the claim is there", daemonOn("node-a"), report(living), "released after its AttachmentClaim is deleted"},
		{"the namespace's owner does", owner, report(deleted), "only the daemon of a pod's node reports"},
		{"the daemon removes the finalizer", daemonOn("node-a"), strip(deleted), "cannot"},
		{"the namespace's owner removes the finalizer", owner, strip(deleted), "only the Alioth operator removes the finalizer"},
		{"an administrator does", clusterAdmin(), strip(living), "only the Alioth operator removes the finalizer"},
		{"the operator does", operator(), strip(living), ""},
	})
}
