// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func vniClaim(vni int32) *v1alpha1.VNIClaim {
	return &v1alpha1.VNIClaim{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.VNIClaimName(uint32(vni))},
		Spec:       v1alpha1.VNIClaimSpec{VNI: vni, VPC: "v", VPCUID: "1"},
	}
}

// TestClaimDeletion_WithoutUID_RefusedWithCommand: kubectl does not, programs do, and with them
// aliothctl.
func TestClaimDeletion_WithoutUID_RefusedWithCommand(t *testing.T) {
	admin := start(t)
	held, vni := address("10.7.0.1", "node-a"), vniClaim(7001)
	create(t, admin, held)
	create(t, admin, vni)
	outside := &v1alpha1.ExternalAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.77"},
		Spec:       v1alpha1.ExternalAddressSpec{IP: "192.0.2.77", Pool: "edge", Service: v1alpha1.ServiceReference{Namespace: "a", Name: "web", UID: "1"}},
	}
	create(t, admin, outside)
	inNetwork := address("10.7.0.1", "node-a")
	inNetwork.Name, inNetwork.Spec.VPC, inNetwork.Spec.Subnet = "u1.net.10.7.0.1", "", ""
	inNetwork.Spec.Network = &v1alpha1.NetworkReference{Group: "danm.k8s.io", Kind: "ClusterNetwork", Name: "external", UID: "u1"}
	create(t, admin, inNetwork)
	editor := person("claims-editor")
	grant(t, admin, editor, "admin")

	bare := func(object client.Object) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error { return c.Delete(ctx, object, client.DryRunAll) }
	}
	exact := func(object client.Object, uid types.UID) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, object, client.DryRunAll, client.Preconditions{UID: &uid})
		}
	}
	all := func(object client.Object) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error { return c.DeleteAllOf(ctx, object, client.DryRunAll) }
	}
	const command, wait = "aliothctl release v 10.7.0.1", "the operator releases it"
	run(t, []attempt{
		{"an Address by its name", clusterAdmin(), bare(held), command},
		{"an Address of a network by its name", clusterAdmin(), bare(inNetwork), "aliothctl release u1.net 10.7.0.1"},
		{"the Address of a network that is meant, by its daemon", daemonOn("node-a"), exact(inNetwork, inNetwork.UID), ""},
		{
			"the Address of a network that is meant, by another daemon",
			daemonOn("node-b"),
			exact(inNetwork, inNetwork.UID),
			"may release Addresses of its own node only",
		},
		{"all Addresses", clusterAdmin(), all(&v1alpha1.Address{}), "aliothctl release"},
		{"an Address by its name, by the operator", operator(), bare(held), command},
		{"an Address by its name, by its daemon", daemonOn("node-a"), bare(held), command},
		{"the Address that is meant", clusterAdmin(), exact(held, held.UID), ""},
		{"the Address that is meant, by the operator", operator(), exact(held, held.UID), ""},
		{"the Address that is meant, by its daemon", daemonOn("node-a"), exact(held, held.UID), ""},
		{"the Address that is meant, without the right", editor, exact(held, held.UID), "cannot delete resource"},
		{"an ExternalAddress by its name", clusterAdmin(), bare(outside), "the operator releases it when its Service is gone"},
		{"the ExternalAddress that is meant, by the operator", operator(), exact(outside, outside.UID), ""},
		{"the ExternalAddress that is meant, by a daemon", daemonOn("node-a"), exact(outside, outside.UID), "cannot delete resource"},
		{"a VNIClaim by its name", clusterAdmin(), bare(vni), wait},
		{"all VNIClaims", clusterAdmin(), all(&v1alpha1.VNIClaim{}), wait},
		{"the VNIClaim that is meant, by the operator", operator(), exact(vni, vni.UID), ""},
		{"the VNIClaim that is meant, by a daemon", daemonOn("node-a"), exact(vni, vni.UID), "cannot delete resource"},
	})
	err := exact(held, "another")(t.Context(), as(t, clusterAdmin()))
	if !apierrors.IsConflict(err) {
		t.Errorf("a successor of the Address that was meant: got %v, want a conflict", err)
	}
}
