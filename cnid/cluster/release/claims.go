// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// releasableClaims returns the AttachmentClaims of this node that are being deleted, and whose
// pod has no attachment here. The pod may live: an ADD checks after its journal entry that the claim
// is not being deleted, so one of the two detects the other.
func releasableClaims(tx store.ReadTx, node string, attached func(uid string) bool) []*multinet.Claim {
	var list []*multinet.Claim
	for _, row := range multinet.ClaimsByNode(tx, node) {
		if row.Deleting && !row.Released && !attached(row.PodUID) {
			list = append(list, row)
		}
	}
	return list
}

// releaseClaim reports that the interface of a claim is gone. The operator then lets the
// claim go.
func (r *Releaser) releaseClaim(ctx context.Context, row *multinet.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	object := &v1alpha1.AttachmentClaim{ObjectMeta: metav1.ObjectMeta{Namespace: row.Namespace, Name: row.Name}}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"released":true}}`, row.UID)
	err := r.api.Patch(ctx, object, types.MergePatchType, patch, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone already
	}
	if err != nil {
		return fmt.Errorf("report the release: %w", err)
	}
	r.log.Info(
		"released interface",
		"claim",
		row.Name,
		"network",
		row.Network.Name,
		"pod",
		row.Namespace+"/"+row.PodName,
		"podUID",
		row.PodUID,
	)
	return nil
}
