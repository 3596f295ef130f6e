// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/forward/tablesync"
)

func TestNodeStatusConvert_Tables_RoundTripEqual(t *testing.T) {
	for name, want := range map[string]*tablesync.Tables{
		"everything": nil,
		"nothing":    {},
		"each field": {
			"a": {Members: true}, "b": {Subnets: true}, "c": {Addresses: true}, "e": {Known: map[string]bool{"s3": true}}, "d": {OfSubnets: map[string]bool{"s1": true, "s2": true}},
		},
	} {
		if diff := cmp.Diff(want, TablesBack(Tables(want))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
