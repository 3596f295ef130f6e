// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// Grants writes the parameters of admission policies: one AdmissionGrants object for each.
type Grants struct {
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
}

// Write writes these grants to the object of that name. Without the object a policy
// refuses all requests that it matches, so the object exists even without grants.
func (g Grants) Write(ctx context.Context, grants *v1alpha1.AdmissionGrants) error {
	object := &v1alpha1.AdmissionGrants{}
	err := g.Live.Get(ctx, client.ObjectKeyFromObject(grants), object)
	switch {
	case apierrors.IsNotFound(err):
		if err := g.Client.Create(ctx, grants); err != nil {
			return fmt.Errorf("create AdmissionGrants %s: %w", grants.Name, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("read AdmissionGrants %s: %w", grants.Name, err)
	}
	before := object.DeepCopy()
	object.HostAccess = grants.HostAccess
	object.ExternalIPs = grants.ExternalIPs
	object.TenantNetworks = grants.TenantNetworks
	if equality.Semantic.DeepEqual(before, object) {
		return nil
	}
	if err := g.Client.Update(ctx, object); err != nil {
		return fmt.Errorf("update AdmissionGrants %s: %w", grants.Name, err)
	}
	return nil
}
