// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

func TestAnEventOfWhateverIsNamedHasANameThatTheAPITakes(t *testing.T) {
	r := &events{node: "node1"}
	names := map[string]bool{}
	for _, about := range []string{
		"web-0", strings.Repeat("a", maxName), strings.Repeat("a", maxName-1) + "b",
		strings.Repeat("a.", maxName/2) + "b", strings.Repeat("a-", maxName/2) + "b",
	} {
		event := r.event(podReference(journal.Pod{Namespace: "ns", Name: about, UID: about}), v1alpha1.AddressLostReason, "text")
		if problems := validation.IsDNS1123Subdomain(event.Name); len(problems) > 0 {
			t.Errorf("%q: %v", event.Name, problems)
		}
		names[event.Name] = true
	}
	if len(names) != 5 {
		t.Errorf("5 events have %d names", len(names))
	}
}

func TestOneAndTheSameHarmIsToldInTheSameWords(t *testing.T) {
	var list []finding.Repair
	for _, name := range []string{"f", "b", "e", "a", "g", "c", "d"} {
		list = append(list, finding.Repair{Kind: datapath.RepairLink, Detail: name})
	}
	want := []string{"deleted or changed by another program, and repaired: a, b, c, d, e and 2 more"}
	for range 2 {
		if d := cmp.Diff(want, repairMessages(list)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		slices.Reverse(list)
	}
}
