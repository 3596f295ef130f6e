// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nmstateapi_test

import (
	"slices"
	"strings"
	"testing"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
)

// TestReachTarget_Unreadable_FaultOfItsPolicy: other policies have no fault.
func TestReachTarget_Unreadable_FaultOfItsPolicy(t *testing.T) {
	for target, fault := range map[nmstatev1.ReachTarget]string{"192.0.2.9:443": "", "192.0.2.300": "spec.reach[1]"} {
		targets := []nmstatev1.ReachTarget{"storage", target}
		early, err := nmstateapi.NodeNetConfPolicy.Convert(&nmstatev1.NodeNetConfPolicy{Spec: nmstatev1.NodeNetConfPolicySpec{Reach: targets}})
		if err != nil {
			t.Fatal(err)
		}
		today, err := nmstateapi.NodeNetworkConfigurationPolicy.Convert(&nmstatev1.NodeNetworkConfigurationPolicy{
			Spec: nmstatev1.NodeNetworkConfigurationPolicySpec{Reach: targets},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []string{early.Fault, today.Fault} {
			if (fault == "") != (got == "") || !strings.Contains(got, fault) {
				t.Errorf("%s: the fault is %q, want %q", target, got, fault)
			}
		}
		if want := []string{"storage", string(target)}; !slices.Equal(early.Spec.Reach, want) || !slices.Equal(today.Spec.Reach, want) {
			t.Errorf("the rows have %q and %q", early.Spec.Reach, today.Spec.Reach)
		}
	}
}

func TestNodeNetworkState_ReachTargets_BothKindsRead(t *testing.T) {
	row, err := nmstateapi.NodeNetworkState.Convert(&nmstatev1beta1.NodeNetworkState{Spec: nmstatev1beta1.NodeNetworkStateSpec{
		Reach: []nmstatev1.ReachTarget{"a"}, PolicyReach: []nmstatev1.ReachTarget{"b:1"},
		Parts: []nmstatev1beta1.Part{{Paths: []string{"interfaces[eth1]"}, Reach: []string{"b:1"}}},
	}})
	if err != nil || len(row.Parts) != 1 || !slices.Equal(row.Parts[0].Reach, []string{"b:1"}) || !slices.Equal(row.Reach, []string{"a"}) ||
		!slices.Equal(row.PolicyReach, []string{"b:1"}) {
		t.Errorf("the row is %+v, %v", row, err)
	}
}
