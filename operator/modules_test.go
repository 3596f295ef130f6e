// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/ipamapi"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/test/api/chart"
)

func TestModules_EachKind_InOneModule(t *testing.T) {
	var known, watched []string
	for _, kind := range kinds.All() {
		known = append(known, kind.Name)
	}
	cfg := DefaultConfig()
	cfg.NodeNetworkState, cfg.NodeIPAM, cfg.ScaledEndpoints, cfg.NetworkPolicies = true, true, true, true
	for _, area := range modules(cfg) {
		for _, kind := range area.kinds {
			watched = append(watched, kind.Name)
		}
	}
	slices.Sort(known)
	slices.Sort(watched)
	if diff := cmp.Diff(known, watched); diff != "" {
		t.Errorf("kinds of the modules (-known +watched):\n%s", diff)
	}
}

// TestChartRights_Modules_AllGranted leaves out the lease, which is the
// process's.
func TestChartRights_Modules_AllGranted(t *testing.T) {
	for _, multiNetwork := range []bool{true, false} {
		t.Run(fmt.Sprintf("multi-network %v", multiNetwork), func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.MultiNetwork = multiNetwork
			compareRights(t, cfg, "--set", fmt.Sprintf("multiNetwork.enabled=%v", multiNetwork))
		})
	}
}

func TestChartRights_NodeNetworkPolicies_AllGranted(t *testing.T) {
	for _, mode := range []string{PolicyDistributed, PolicyCentralized} {
		t.Run(mode, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.NodeNetworkState, cfg.PolicyMode = true, mode
			compareRights(t, cfg, "--set", "nodeNetworkState.enabled=true", "--set", "nodeNetworkState.policyMode="+mode)
		})
	}
}

func TestChartRights_ScaledEndpoints_AllGranted(t *testing.T) {
	cfg := DefaultConfig()
	cfg.ScaledEndpoints = true
	compareRights(t, cfg, "--set", "scaledEndpoints.enabled=true")
}

func TestChartRights_NetworkPolicies_AllGranted(t *testing.T) {
	cfg := DefaultConfig()
	cfg.NetworkPolicies = true
	compareRights(t, cfg, "--set", "networkPolicies.enabled=true")
}

func TestChartRights_NodeIPAM_AllGranted(t *testing.T) {
	for _, groups := range [][]string{ipamapi.Groups, ipamapi.Groups[:1], ipamapi.Groups[1:]} {
		t.Run(strings.Join(groups, " "), func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.NodeIPAM, cfg.NodeIPAMGroups = true, groups
			compareRights(t, cfg, "--set", "nodeIPAM.enabled=true,nodeIPAM.infraSubnet=default,nodeIPAM.groups={"+strings.Join(groups, ",")+"}")
		})
	}
}

// compareRights compares the rights of the modules with the rights in the chart.
func compareRights(t *testing.T, cfg Config, values ...string) {
	t.Helper()
	objects, err := chart.New(t, "..", nil).Template(t.Context(), values...)
	if err != nil {
		t.Fatal(err)
	}
	given, err := chart.Rights(objects, "alioth-operator")
	if err != nil {
		t.Fatal(err)
	}
	given = slices.DeleteFunc(given, func(right string) bool { return strings.HasSuffix(right, " leases.coordination.k8s.io") })
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	var needed []string
	for _, area := range modules(cfg) {
		for _, kind := range area.kinds {
			resource := resourceOf(t, scheme, kind)
			needed = append(needed, "list "+resource, "watch "+resource)
		}
		for _, right := range area.rights {
			resource, verbs, _ := strings.Cut(right, ": ")
			for _, verb := range strings.Fields(verbs) {
				needed = append(needed, verb+" "+resource)
			}
		}
	}
	slices.Sort(needed)
	if diff := cmp.Diff(slices.Compact(needed), given); diff != "" {
		t.Errorf("rights of the operator (-needed +given):\n%s", diff)
	}
}

func resourceOf(t *testing.T, scheme *runtime.Scheme, kind *descriptor.Kind) string {
	t.Helper()
	types, _, err := scheme.ObjectKinds(kind.Object)
	if err != nil {
		t.Fatal(err)
	}
	if kind == outside.Definition.Kind { // the specification gives it another plural
		return "network-attachment-definitions.k8s.cni.cncf.io"
	}
	if types[0].Kind == "NodeInfo" { // so does Azure CNS
		return "nodeinfo." + types[0].Group
	}
	if types[0].Kind == "NodeRoles" { // it is a plural
		return "noderoles." + types[0].Group
	}
	resource, _ := meta.UnsafeGuessKindToResource(types[0])
	return strings.TrimSuffix(resource.Resource+"."+resource.Group, ".")
}
