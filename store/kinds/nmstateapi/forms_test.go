// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nmstateapi_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
)

// TestConvert_OtherSpelling_OneForm: people write second names and quoted numbers, and
// earlier versions kept them in their objects.
func TestConvert_OtherSpelling_OneForm(t *testing.T) {
	raw := &runtime.RawExtension{Raw: []byte(`{"interfaces":[{"name":"b1","mtu":"1400","bond":{"mode":4,"ports":["eth1"]}}]}`)}
	var want map[string]any
	if err := json.Unmarshal([]byte(`{"interfaces":[{"name":"b1","mtu":1400,"link-aggregation":{"mode":"802.3ad","port":["eth1"]}}]}`), &want); err != nil {
		t.Fatal(err)
	}
	object := &nmstatev1beta1.NodeNetworkConfigurationEnactment{}
	object.Name = "n1.blue"
	object.Status = nmstatev1beta1.NodeNetworkConfigurationEnactmentStatus{
		Policy:       &nmstatev1beta1.PolicyReference{Kind: "NodeNetworkConfigurationPolicy", Name: "blue"},
		DesiredState: raw, AppliedState: raw, StateBefore: raw, Undoing: raw, Trial: &nmstatev1beta1.Trial{FormerState: raw},
	}
	e, err := nmstateapi.ConvertEnactment(object)
	if err != nil || e == nil {
		t.Fatalf("the enactment has no row: %v", err)
	}
	s, err := nmstateapi.NodeNetworkState.Convert(&nmstatev1beta1.NodeNetworkState{Spec: nmstatev1beta1.NodeNetworkStateSpec{DesiredState: raw, PolicyState: raw}})
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]map[string]any{
		"desired": e.Desired, "applied": e.Applied, "before": e.Before, "undoing": e.Undoing, "former": e.Trial.Former,
		"desired of the node": s.Desired, "of policies": s.FromPolicies,
	} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}
