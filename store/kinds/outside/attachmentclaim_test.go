// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

var referred = v1alpha1.NetworkReference{Group: "danm.io", Kind: "DanmNet", Namespace: "shop", Name: "internal", UID: "u1"}

func TestAttachmentClaim_Object_RowRead(t *testing.T) {
	object := &v1alpha1.AttachmentClaim{
		ObjectMeta: objectMeta("p1.net1", 3),
		Spec: v1alpha1.AttachmentClaimSpec{
			Pod: v1alpha1.AttachmentPod{Name: "web", UID: "p1"}, Node: "n1", Interface: "net1", Driver: "macvlan",
			Network: referred, ConfigHash: "ab", Addresses: []string{"10.0.0.1/24"},
		},
	}
	object.Namespace = "shop"
	object.Spec.Config = &runtime.RawExtension{Raw: []byte(`{"name": "net1", "kind": "macvlan", "outsideUID": "u1", "later": 1}`)}
	got, err := AttachmentClaim.Convert(object)
	if err != nil {
		t.Fatal(err)
	}
	want := &multinet.Claim{
		Config: &netif.Interface{Name: "net1", Kind: "macvlan", OutsideUID: "u1"},
		Meta:   store.Meta{UID: "u", ResourceVersion: "3"}, Namespace: "shop", Name: "p1.net1", PodName: "web", PodUID: "p1", Node: "n1",
		Interface: "net1", Driver: "macvlan", ConfigHash: "ab", Addresses: []string{"10.0.0.1/24"},
		Network: store.NetworkRef{Group: "danm.io", Kind: "DanmNet", Namespace: "shop", Name: "internal", UID: "u1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAttachmentClaim_ConfigUnreadable_FitsNothing(t *testing.T) {
	for _, text := range []string{`{"name": 7}`, `[]`, `{"name": "net1", "addresses": ["10.0.0.1"]}`, `{"name": "net1", "kind": "mac\u001bvlan"}`} {
		object := &v1alpha1.AttachmentClaim{ObjectMeta: objectMeta("p1.net1", 3), Spec: v1alpha1.AttachmentClaimSpec{
			Interface: "net1", Driver: "macvlan", Network: referred, Config: &runtime.RawExtension{Raw: []byte(text)},
		}}
		got, err := AttachmentClaim.Convert(object)
		if err != nil || got.Config == nil || got.Fits() {
			t.Errorf("%s: %v, configuration %+v", text, err, got.Config)
		}
	}
}

func objectMeta(name string, version int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: strconv.Itoa(version)}
}
