// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"strings"
	"testing"
)

func TestKnown_UnknownValue_ErrorHasRemedy(t *testing.T) {
	if err := Known("spec.use", "", "Pods", "Services"); err != nil {
		t.Errorf("a field that may be missing: %v", err)
	}
	if err := EachKnown("spec.uses", []string{"Pods", "Services"}, "Pods", "Services"); err != nil {
		t.Errorf("known values: %v", err)
	}
	for name, err := range map[string]error{
		"a value": Known("spec.use", "Later", "Pods", "Services"), "an element": EachKnown("spec.use", []string{"Pods", "Later"}, "Pods", "Services"),
	} {
		if err == nil {
			t.Errorf("%s of a later version is known", name)
		} else if text := err.Error(); !strings.Contains(text, `spec.use "Later"`) || !strings.Contains(text, "use Pods or Services, or upgrade Alioth") {
			t.Errorf("%s: %s", name, text)
		}
	}
	if err := Known("spec.use", strings.Repeat("x", 10_000), "Pods"); err == nil || len(err.Error()) > 600 {
		t.Error("the error repeats a text without bound")
	}
}
