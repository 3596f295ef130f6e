// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publish writes the parameters of admission policies: one AdmissionGrants
// object for each.
package publish

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// Publisher writes AdmissionGrants.
type Publisher struct {
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
}

// Write writes these grants to the object of that name. Without the object a policy
// refuses all requests that it matches, so the object exists even without grants.
func (p Publisher) Write(ctx context.Context, grants *v1alpha1.AdmissionGrants) error {
	object := &v1alpha1.AdmissionGrants{}
	err := p.Live.Get(ctx, client.ObjectKeyFromObject(grants), object)
	switch {
	case apierrors.IsNotFound(err):
		if err := p.Client.Create(ctx, grants); err != nil {
			return fmt.Errorf("create AdmissionGrants %s: %w", grants.Name, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("read AdmissionGrants %s: %w", grants.Name, err)
	}
	before := object.DeepCopy()
	object.HostAccess, object.ExternalIPs, object.TenantNetworks = grants.HostAccess, grants.ExternalIPs, grants.TenantNetworks
	if equality.Semantic.DeepEqual(before, object) {
		return nil
	}
	if err := p.Client.Update(ctx, object); err != nil {
		return fmt.Errorf("update AdmissionGrants %s: %w", grants.Name, err)
	}
	return nil
}
