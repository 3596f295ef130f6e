// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
)

// Usage writes the figures of a Subnet or VPC into an object of their own, if the present object
// differs. So nodes, which watch Subnets and VPCs, get no event for each address. The Usage of an
// ended object of the same name becomes the Usage of its successor.
func Usage(
	ctx context.Context,
	c client.Client,
	kind v1alpha1.UsageKind,
	of metav1.Object,
	figures v1alpha1.UsageStatus,
) error {
	usage := &v1alpha1.Usage{}
	usage.Name = v1alpha1.UsageName(kind, of.GetName())
	err := c.Get(ctx, client.ObjectKeyFromObject(usage), usage)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("read Usage %s: %w", usage.Name, err)
	}
	before := usage.DeepCopy()
	usage.Spec = v1alpha1.UsageSpec{Kind: kind, Name: of.GetName()}
	usage.Status = figures
	usage.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: string(kind), Name: of.GetName(), UID: of.GetUID(),
	}}
	switch {
	case missing:
		err = c.Create(ctx, usage)
	case !equality.Semantic.DeepEqual(before, usage):
		err = c.Update(ctx, usage)
	}
	if err != nil {
		return fmt.Errorf("write Usage %s: %w", usage.Name, err)
	}
	return nil
}

// UsageRequests requests the Subnet or VPC of a Usage that has changed, if the Usage is for that
// kind: a user may have changed or deleted it.
func UsageRequests(kind v1alpha1.UsageKind) func(tx store.ReadTx, old, now *store.Usage) []feed.Request {
	return func(_ store.ReadTx, old, now *store.Usage) []feed.Request {
		var all []feed.Request
		for _, row := range []*store.Usage{old, now} { // a change may have named another object
			if row != nil && row.Kind == string(kind) {
				all = append(all, feed.Now("", row.Of))
			}
		}
		return all
	}
}
