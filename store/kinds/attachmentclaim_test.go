// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/multinet"
)

var referred = v1alpha1.NetworkReference{Group: "danm.io", Kind: "DanmNet", Namespace: "shop", Name: "internal", UID: "u1"}

func TestAttachmentClaimsAreRead(t *testing.T) {
	object := &v1alpha1.AttachmentClaim{
		ObjectMeta: objectMeta("p1.net1", "u", 3),
		Spec: v1alpha1.AttachmentClaimSpec{
			Pod: v1alpha1.AttachmentPod{Name: "web", UID: "p1"}, Node: "n1", Interface: "net1", Driver: "macvlan",
			Network: referred, ConfigHash: "ab", Addresses: []string{"10.0.0.1/24"},
		},
	}
	object.Namespace = "shop"
	got, err := AttachmentClaim.Convert(object)
	if err != nil {
		t.Fatal(err)
	}
	want := &multinet.Claim{
		Meta: store.Meta{UID: "u", ResourceVersion: "3"}, Namespace: "shop", Name: "p1.net1", PodName: "web", PodUID: "p1", Node: "n1",
		Interface: "net1", Driver: "macvlan", ConfigHash: "ab", Addresses: []string{"10.0.0.1/24"},
		Network: store.NetworkRef{Group: "danm.io", Kind: "DanmNet", Namespace: "shop", Name: "internal", UID: "u1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheNetworkOfAnAddressIsRead(t *testing.T) {
	object := addressObject("10.0.0.1", "u", 1)
	object.Spec.VPC, object.Spec.Subnet, object.Spec.Network = "", "", &referred
	row, err := Address.Convert(object)
	if err != nil {
		t.Fatal(err)
	}
	if row.Network.UID != "u1" || row.Domain() != "u1.net" || row.Place() != "DanmNet shop/internal" || row.VPC != "" {
		t.Errorf("the row is %+v", row)
	}
}
