// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/test/api/chart"
)

// TestDaemonRights_NodeInfoRequests_Permitted makes the requests of a daemon about the NodeInfos of
// its node, in both groups.
func TestDaemonRights_NodeInfoRequests_Permitted(t *testing.T) {
	args := []string{"--set", "nodeIPAM.enabled=true,nodeIPAM.infraSubnet=default"}
	admin, server := install(t, args...)
	h := newHandlers(t, admin, server)
	named := metav1.ObjectMeta{Name: thisNode}
	for patch, info := range map[string]client.Object{
		`{"spec":{"vmUniqueID":"vm"},"status":{"deviceInfos":[{"macAddress":"00:0d:3a:12:34:56"}]}}`: &multitenancyv1alpha1.NodeInfo{ObjectMeta: named},
		`{"status":{"vmUniqueID":"vm"}}`: &acnv1alpha1.NodeInfo{ObjectMeta: named},
	} {
		until(t, "the policies refuse the daemon of another node", func(ctx context.Context) (bool, error) {
			err := h.other.Create(ctx, clone(info), client.DryRunAll)
			return apierrors.IsForbidden(err), nil
		})
		if err := h.daemon.Create(t.Context(), info); err != nil {
			t.Fatal(err)
		}
		for _, write := range []func(client.WithWatch) error{
			func(c client.WithWatch) error {
				return c.Patch(t.Context(), clone(info), client.RawPatch(types.MergePatchType, []byte(patch)))
			},
			func(c client.WithWatch) error {
				return c.Status().Patch(t.Context(), clone(info), client.RawPatch(types.MergePatchType, []byte(patch)))
			},
		} {
			if err := write(h.daemon); err != nil {
				t.Error(err)
			}
			wantForbidden(t, "the daemon of another node", write(h.other))
		}
	}
	compareRightsOf(t, server, []chart.Account{{Name: "alioth-cnid", Node: thisNode}}, "acn.azure.com", args)
}

func clone(object client.Object) client.Object { return object.DeepCopyObject().(client.Object) }
