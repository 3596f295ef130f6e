// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// heldIn makes the Address of a pod that is gone, in a VPC or else in a network.
func heldIn(vpc string, network *v1alpha1.NetworkReference, ip string) *v1alpha1.Address {
	a := &v1alpha1.Address{Spec: v1alpha1.AddressSpec{
		VPC: vpc, Network: network, IP: ip, Node: "n1",
		Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "shop", Name: "web", UID: "gone"},
	}}
	a.Name, a.UID = v1alpha1.AddressName(a.Spec.Domain(), netip.MustParseAddr(ip)), "some"
	return a
}

func releaseAPI(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	for field, of := range map[string]func(n *v1alpha1.NetworkReference) string{
		"spec.network.kind":      func(n *v1alpha1.NetworkReference) string { return n.Kind },
		"spec.network.namespace": func(n *v1alpha1.NetworkReference) string { return n.Namespace },
		"spec.network.name":      func(n *v1alpha1.NetworkReference) string { return n.Name },
	} {
		b.WithIndex(&v1alpha1.Address{}, field, func(object client.Object) []string {
			if a, ok := object.(*v1alpha1.Address); ok && a.Spec.Network != nil {
				return []string{of(a.Spec.Network)}
			}
			return []string{""}
		})
	}
	return b.Build()
}

func TestRelease_VPCOrNetworkName_AddressFound(t *testing.T) {
	network := func(kind, namespace, name, uid string) *v1alpha1.NetworkReference {
		return &v1alpha1.NetworkReference{Group: "danm.k8s.io", Kind: kind, Namespace: namespace, Name: name, UID: uid}
	}
	all := []client.Object{
		heldIn("customer-a", nil, "10.0.0.1"),
		heldIn("", network("DanmNet", "shop", "internal", "u1"), "10.0.0.1"),
		heldIn("", network("DanmNet", "office", "internal", "u2"), "10.0.0.1"),
		heldIn("", network("ClusterNetwork", "", "external", "u3"), "fd00::1"),
		heldIn("", network("DanmNet", "shop", "again", "u4"), "10.0.0.1"),
		heldIn("", network("DanmNet", "shop", "again", "u5"), "10.0.0.1"),
	}
	for _, tc := range []struct{ place, ip, released, refused string }{
		{place: "customer-a", ip: "10.0.0.1", released: "customer-a.10.0.0.1"},
		{place: "customer-b", ip: "10.0.0.1", refused: "customer-b.10.0.0.1"},
		{place: "DanmNet/shop/internal", ip: "10.0.0.1", released: "u1.net.10.0.0.1"},
		{place: "u2.net", ip: "10.0.0.1", released: "u2.net.10.0.0.1"},
		{place: "ClusterNetwork/external", ip: "fd00::1", released: "u3.net.fd00--1"},
		{place: "TenantNetwork/shop/internal", ip: "10.0.0.1", refused: "no pod holds 10.0.0.1 in network TenantNetwork/shop/internal"},
		{place: "DanmNet/shop/internal", ip: "10.0.0.2", refused: "no pod holds 10.0.0.2"},
		{place: "DanmNet/shop/again", ip: "10.0.0.1", refused: "name one by its UID, u4.net or u5.net"},
		{place: "DanmNet//internal", ip: "10.0.0.1", refused: "want <kind>/<namespace>/<name>"},
		{place: "DanmNet/a/b/c", ip: "10.0.0.1", refused: "want <kind>/<namespace>/<name>"},
	} {
		t.Run(tc.place+" "+tc.ip, func(t *testing.T) {
			var out bytes.Buffer
			var objects []client.Object
			for _, object := range all {
				objects = append(objects, object.DeepCopyObject().(client.Object))
			}
			r := releaser{api: releaseAPI(t, objects...), out: &out}
			err := r.release(t.Context(), tc.place, netip.MustParseAddr(tc.ip))
			var list metav1.PartialObjectMetadataList
			list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AddressList"))
			if listErr := r.api.List(t.Context(), &list); listErr != nil {
				t.Fatal(listErr)
			}
			left := ""
			for _, item := range list.Items {
				left += item.Name + " "
			}
			switch {
			case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused) || len(list.Items) != len(all)):
				t.Errorf("got %v, left %s; want an error with %q", err, left, tc.refused)
			case tc.released != "" && (err != nil || !strings.Contains(out.String(), tc.released) ||
				strings.Contains(left, tc.released+" ") || len(list.Items) != len(all)-1):
				t.Errorf("got %v, output %s, left %s; want %s released", err, &out, left, tc.released)
			}
		})
	}
}
