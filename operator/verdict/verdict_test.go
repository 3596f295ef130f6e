// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
)

func TestVerdict_EachOutcome_OneAloneReady(t *testing.T) {
	for name, c := range map[string]struct {
		verdict verdict.Verdict
		ready   bool
		reason  string
	}{
		"the zero value": {},
		"passed":         {verdict.Passed, true, v1alpha1.ReadyReason},
		"ready":          {verdict.Use("m"), true, v1alpha1.ReadyReason},
		"refused":        {verdict.Refuse("R", "m"), false, "R"},
		"waiting":        {verdict.Wait("R", "m"), false, "R"},
		"gone":           {verdict.Deleting("m"), false, v1alpha1.DeletingReason},
	} {
		if c.verdict.IsReady() != c.ready || c.verdict.Reason != c.reason {
			t.Errorf("%s: ready %t with the reason %q", name, c.verdict.IsReady(), c.verdict.Reason)
		}
	}
}
