// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

func TestPermitRules_EachStepType_Known(t *testing.T) {
	for _, step := range plan.Kinds() {
		if _, err := changeOf(step); err != nil {
			t.Error(err)
		}
	}
}

// novelty is a step that the rules do not know.
type novelty struct{}

func (novelty) String() string { return "paint eth2" }

func TestPermitRules_UnknownStep_Refused(t *testing.T) {
	err := rules("", true).Steps(example, []plan.Step{novelty{}})
	if err == nil || !strings.Contains(err.Error(), "paint eth2") {
		t.Errorf("got %v", err)
	}
}
