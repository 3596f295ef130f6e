// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package backends

import (
	"cmp"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/bench/figures"
)

func TestBackendRows_Rounds_RowsWithBars(t *testing.T) {
	rows := backendRows([]figures.Line{
		{What: "ADD of macvlan", Path: figures.Alioth, Values: figures.Series{1, 2, 9}},
		{What: "ADD of macvlan", Path: referencePlugin, Values: figures.Series{4, 4, 5}},
		{What: "ADD of macvlan", Path: figures.Alioth, Values: figures.Series{3, 4, 8}},
		{What: "200 VXLAN links", Path: figures.Alioth, Values: figures.Series{900}},
		{What: "200 VXLAN links", Path: figures.Alioth, Values: figures.Series{700}},
		{What: oneRequest, Path: figures.Alioth, Values: figures.Series{1, 2, 9}},
		{What: endpointsMemory, Path: figures.Alioth, Values: figures.Series{3}},
	})
	want := []*figures.Row{
		{
			What:  "ADD of macvlan, p50",
			Paths: map[string]figures.Series{figures.Alioth: {2, 4}, referencePlugin: {4}},
			Bars:  []figures.Bar{{Reference: referencePlugin, AtMost: 1.2}},
		},
		{
			What:  "ADD of macvlan, p99",
			Paths: map[string]figures.Series{figures.Alioth: {9}, referencePlugin: {5}},
			Bars:  []figures.Bar{{Reference: referencePlugin, AtMost: 1.2}},
		},
		{What: "200 VXLAN links", Paths: map[string]figures.Series{figures.Alioth: {900, 700}}, Bars: []figures.Bar{{AtMost: 5000}}},
		{What: oneRequest + ", p50", Paths: map[string]figures.Series{figures.Alioth: {2}}, Bars: []figures.Bar{{AtMost: 2}}},
		{What: oneRequest + ", p99", Paths: map[string]figures.Series{figures.Alioth: {9}}, Bars: []figures.Bar{{AtMost: 10}}},
		{What: endpointsMemory, Unit: "MiB", Paths: map[string]figures.Series{figures.Alioth: {3}}, Bars: []figures.Bar{{AtMost: 20}}},
	}
	for _, row := range want {
		row.Unit, row.Format, row.Subject = cmp.Or(row.Unit, "ms"), "%.1f", figures.Alioth
	}
	if diff := gocmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
