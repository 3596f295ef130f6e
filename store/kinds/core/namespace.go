// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
)

// Namespace is the kind of a namespace. The namespace gives its objects their tenant.
var Namespace = descriptor.Define(&all, descriptor.Description[*corev1.Namespace, store.Namespace]{
	Name: "Namespace", Object: &corev1.Namespace{}, List: &corev1.NamespaceList{}, Convert: convertNamespace,
	Table:  descriptor.ByName(store.GetNamespace, store.PutNamespace, store.DeleteNamespace),
	OnNode: descriptor.Everything,
	Of:     descriptor.Scopes{descriptor.UsedNamespace: descriptor.WithField("metadata.name")},
})

// convertNamespace converts a Namespace. It never fails.
func convertNamespace(in *corev1.Namespace) (*store.Namespace, error) {
	return &store.Namespace{
		Meta:   values.Meta(in),
		Name:   in.Name,
		Tenant: v1alpha1.TenantOfNamespace(in.Name, in.Labels),

		Restricted: slices.Contains(v1alpha1.RestrictingLevels(), in.Labels[v1alpha1.PodSecurityLabel]),
	}, nil
}
