// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/alioth-net/alioth/test/api/chart"
)

// Values that turn on the area of nodes' networks, and that let the operator decide.
const (
	areaOn      = "nodeNetworkState.enabled=true"
	centralized = areaOn + ",nodeNetworkState.policyMode=centralized"
)

func TestChartNodeNetwork_Off_NothingRendered(t *testing.T) {
	for _, word := range []string{"nmstate.io", "node-network"} {
		if names := objectsWith(t, word); len(names) > 0 {
			t.Errorf("%q is in %q", word, names)
		}
	}
}

func TestChartNodeNetwork_PolicyMode_ReachesBothPrograms(t *testing.T) {
	for set, want := range map[string]string{"image.tag=x": "", areaOn: "distributed", centralized: "centralized"} {
		daemon := rendered(t, "DaemonSet", "--set", set)
		programs := rendered(t, "Deployment", "--set", set)
		maps.Copy(programs, daemon)
		for name, object := range programs {
			var got []string
			for _, arg := range argumentsOf(t, object) {
				if strings.HasPrefix(arg, "--node-network") {
					got = append(got, arg)
				}
			}
			var wanted []string
			if want != "" {
				wanted = []string{"--node-network-state=true", "--node-network-policy-mode=" + want}
			}
			if !slices.Equal(got, wanted) {
				t.Errorf("%s: %s has the arguments %q, want %q", set, name, got, wanted)
			}
		}
	}
}

// TestChartNodeNetwork_PolicyMode_SelectsRights: who does not decide has no right to.
func TestChartNodeNetwork_PolicyMode_SelectsRights(t *testing.T) {
	const states, enactments = "nodenetworkstates.nmstate.io", "nodenetworkconfigurationenactments.nmstate.io"
	const today, early = "nodenetworkconfigurationpolicies.nmstate.io", "nodenetconfpolicies.nmstate.io"
	observing := []string{"get " + states, "list " + states, "watch " + states, "create " + states, "patch " + states + "/status"}
	reading := []string{
		"get " + today, "list " + today, "watch " + today, "get " + early, "list " + early, "watch " + early,
		"get " + enactments, "list " + enactments, "watch " + enactments,
	}
	deciding := slices.Concat(reading, []string{
		"get " + states, "patch " + states, "patch " + states + "/status",
		"create " + enactments, "patch " + enactments, "delete " + enactments, "patch " + enactments + "/status",
	})
	granting := slices.Concat(reading, []string{
		"list " + states, "watch " + states, "delete " + enactments, "patch " + enactments + "/status", "patch " + today + "/status", "patch " + early + "/status",
	})
	for _, tt := range []struct {
		set, account string
		want         []string
	}{
		{"image.tag=x", "alioth-cnid", nil},
		{"image.tag=x", "alioth-operator", nil},
		{areaOn, "alioth-cnid", slices.Concat(observing, deciding)},
		{areaOn, "alioth-operator", granting},
		{centralized, "alioth-cnid", observing},
		{centralized, "alioth-operator", slices.Concat(granting, deciding)},
	} {
		objects, err := chart.New(t, root, nil).Template(t.Context(), "--set", tt.set)
		if err != nil {
			t.Fatal(err)
		}
		all, err := chart.Rights(objects, tt.account)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(all, func(right string) bool { return !strings.Contains(right, "nmstate.io") })
		slices.Sort(tt.want)
		if diff := cmp.Diff(slices.Compact(tt.want), got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: rights of %s (-want +got):\n%s", tt.set, tt.account, diff)
		}
	}
}
