// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/api/chart"
)

// TestServiceRights_ScaledEndpoints_FollowTheJudge: a daemon that uses the operator's verdicts does
// not read the objects that Services are judged by. A daemon that judges reads no verdicts.
func TestServiceRights_ScaledEndpoints_FollowTheJudge(t *testing.T) {
	const verdicts = "scaledendpoints.alioth.dev"
	judged := []string{"services", "endpointslices.discovery.k8s.io", "networks.arktos.futurewei.com"}
	var judging []string
	for _, resource := range judged {
		judging = append(judging, "list "+resource, "watch "+resource)
	}
	reading := []string{"list " + verdicts, "watch " + verdicts}
	for _, tt := range []struct {
		set, account string
		// of are the resources whose rights are compared.
		of, want []string
	}{
		{"scaledEndpoints.enabled=false", "alioth-cnid", append(judged, verdicts), judging},
		{"scaledEndpoints.enabled=true", "alioth-cnid", append(judged, verdicts), reading},
		{"scaledEndpoints.enabled=false", "alioth-operator", []string{verdicts}, append([]string{"update " + verdicts}, reading...)},
		{"scaledEndpoints.enabled=true", "alioth-operator", []string{verdicts}, append([]string{"create " + verdicts, "update " + verdicts, "delete " + verdicts}, reading...)},
	} {
		objects, err := chart.New(t, root, nil).Template(t.Context(), "--set", tt.set)
		if err != nil {
			t.Fatal(err)
		}
		all, err := chart.Rights(objects, tt.account)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(all, func(right string) bool {
			_, resource, _ := strings.Cut(right, " ")
			return !slices.Contains(tt.of, resource)
		})
		slices.Sort(tt.want)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: rights of %s (-want +got):\n%s", tt.set, tt.account, diff)
		}
	}
}
