// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"testing"

	"github.com/alioth-net/alioth/api/version"
)

// TestANewFormatIsANewFormatOfTheState: an older release can't read the journal, so the cluster
// has to refuse it before anything is touched.
func TestANewFormatIsANewFormatOfTheState(t *testing.T) {
	formats := map[int]int{1: 2}
	if formats[version.State] != formatVersion {
		t.Errorf("state %d has the format %d of the journal, which is %d now: raise version.State, add a line here, and one to docs/operate/upgrade.md",
			version.State, formats[version.State], formatVersion)
	}
}
