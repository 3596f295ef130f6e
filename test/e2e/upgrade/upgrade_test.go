// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"testing"

	"github.com/alioth-net/alioth/test/cluster/release"
)

// TestUpgradeAndDowngrade_TrafficFlows_Unnoticed changes the version as people do: by the chart,
// and back to the revision that was installed before.
func TestUpgradeAndDowngrade_TrafficFlows_Unnoticed(t *testing.T) {
	e := start(t)
	w := e.town(t)
	to := []release.Version{e.released, e.present}
	if e.other(t) == e.present {
		to = []release.Version{e.present, e.released}
	}
	before, err := e.Lab.Revision(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, version := range to {
		t.Run("to "+e.nameOf(version), func(t *testing.T) {
			w.expectUnnoticed(t, func(ctx context.Context) error {
				if i == 0 {
					return w.Lab.Install(ctx, version)
				}
				return w.Lab.RollBack(ctx, version, before)
			})
			e.expectVersion(t, version)
		})
	}
}
