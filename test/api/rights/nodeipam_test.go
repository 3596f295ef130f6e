// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"context"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/operator"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/test/api/apiserver"
)

// TestNodeIPAMNeedsTheRightsThatTheChartGivesAndNoOthers runs the operator, which follows the
// kinds of both groups, and makes the requests of a daemon about its NodeInfos.
func TestNodeIPAMNeedsTheRightsThatTheChartGivesAndNoOthers(t *testing.T) {
	args := []string{"--set", "nodeIPAM.enabled=true,nodeIPAM.infraSubnet=default"}
	admin, server := install(t, args...)
	h := newHandlers(t, admin, server)
	operate(t, server.Config(), func(cfg *operator.Config) { cfg.NodeIPAM, cfg.NodeIPAMInfraSubnet = true, "default" })
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
		read(t, h.daemon, thisNode, info)
	}
	until(t, "the operator follows all kinds", func(context.Context) (bool, error) {
		return followsNodeIPAM(server)
	})
	compareRights(t, server, "acn.azure.com", args)
}

func clone(object client.Object) client.Object { return object.DeepCopyObject().(client.Object) }

// followsNodeIPAM reports whether the operator follows all kinds of the node IPAM API.
func followsNodeIPAM(server *apiserver.Server) (bool, error) {
	requests, err := server.Requests()
	if err != nil {
		return false, err
	}
	for _, group := range kinds.NodeIPAMGroups {
		for _, resource := range []string{"podnetworks", "podnetworkinstances", "multitenantpodnetworkconfigs", "nodeinfo"} {
			if !slices.ContainsFunc(requests, func(r apiserver.Request) bool { return r.Right == "watch "+resource+"."+group && !r.Refused }) {
				return false, nil
			}
		}
	}
	return true, nil
}
