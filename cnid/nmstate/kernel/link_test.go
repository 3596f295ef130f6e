// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel_test

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

func TestAlternativeNames_AddAndRemove_Applied(t *testing.T) {
	k, _ := open(t)
	long := strings.Repeat("x", document.LongestAltName)
	change := func(list ...document.AltName) plan.Step {
		return plan.Change{Interface: document.Interface{Name: "a", Type: document.VethPair, AltNames: list}}
	}
	do(t, k, pair())
	want(t, find(t, k, "a").AltNames, nil)
	for range 2 { // a second call with an existing object succeeds
		do(t, k, change(document.AltName{Name: long}, document.AltName{Name: "port1"}))
		want(t, find(t, k, "a").AltNames, []document.AltName{{Name: "port1"}, {Name: long}})
	}
	for range 2 {
		do(t, k, change(document.AltName{Name: long, State: document.Absent}, document.AltName{Name: "new"}))
		want(t, find(t, k, "a").AltNames, []document.AltName{{Name: "new"}, {Name: "port1"}})
	}
	taken := plan.Change{Interface: document.Interface{Name: "b", Type: document.VethPair, AltNames: []document.AltName{{Name: "port1"}}}}
	if err := k.Do(t.Context(), taken); err == nil || !strings.Contains(err.Error(), "alt-names") {
		t.Errorf("a name that is taken: %v", err)
	}
}

// TestKernelStep_AlternativeName_NotUsedForDevice: the kernel would take it.
func TestKernelStep_AlternativeName_NotUsedForDevice(t *testing.T) {
	k, _ := open(t)
	do(t, k, pair(), plan.Change{Interface: document.Interface{Name: "a", Type: document.VethPair, AltNames: []document.AltName{{Name: "port1"}}}})
	do(t, k, plan.Delete{Name: "port1"})
	if err := k.Do(t.Context(), plan.Change{Interface: document.Interface{Name: "port1", MTU: new(1400)}}); err == nil {
		t.Error("the device was changed")
	}
	for name, is := range map[string]string{"port1": "a", "a": "a", "none": "none", "": "", strings.Repeat("x", 200): strings.Repeat("x", 200)} {
		if got, err := k.NameOf(t.Context(), name); got != is || err != nil {
			t.Errorf("%q is %q: %v", name, got, err)
		}
	}
}
