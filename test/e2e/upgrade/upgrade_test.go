// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"testing"

	"github.com/alioth-net/alioth/test/cluster/release"
)

// TestNobodyNoticesAnUpgradeNorTheWayBack changes the version as people do, by the chart, once
// in each direction.
func TestNobodyNoticesAnUpgradeNorTheWayBack(t *testing.T) {
	e := start(t)
	w := e.town(t)
	to := []release.Version{e.released, e.present}
	if e.other(t) == e.present {
		to = []release.Version{e.present, e.released}
	}
	for _, version := range to {
		t.Run("to "+e.nameOf(version), func(t *testing.T) {
			w.expectUnnoticed(t, func(ctx context.Context) error { return w.Lab.Install(ctx, version) })
			e.expectVersion(t, version)
		})
	}
}
