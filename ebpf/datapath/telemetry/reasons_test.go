// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestReasons_EachOne_NameUnique(t *testing.T) {
	if len(reasonNames) != int(bpf.AliothReasonREASON_LEN) {
		t.Fatalf("%d names for %d reasons", len(reasonNames), bpf.AliothReasonREASON_LEN)
	}
	seen := map[string]int{}
	for i, name := range reasonNames {
		if name == "" {
			t.Errorf("reason %d has no name", i)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("reasons %d and %d are both %q", other, i, name)
		}
		seen[name] = i
	}
	if got := Reason(bpf.AliothReasonREASON_LEN).String(); !strings.HasPrefix(got, "reason_") {
		t.Errorf("an unknown reason is called %q", got)
	}
}

// The table in docs/reference/reasons.md is for readers without aliothctl.
func TestDropReasons_EachOne_ExplainedAndDocumented(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/reference/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	for reason := range Reason(bpf.AliothReasonREASON_LEN) {
		if explained := reason.Means() != ""; explained != reason.Drop() {
			t.Errorf("%s is explained: %t; is a drop: %t", reason, explained, reason.Drop())
		}
		if row := fmt.Sprintf("| %s | %s | %s |\n", reason, reason.Means(), reason.Remedy()); reason.Drop() && !strings.Contains(string(docs), row) {
			t.Errorf("docs/reference/reasons.md lacks the row\n%s", row)
		}
	}
	if unknown := Reason(bpf.AliothReasonREASON_LEN); unknown.Means() == "" || unknown.Remedy() == "" {
		t.Error("a reason of a later version is not explained at all")
	}
}

func TestReasonRoutine_EachReason_OnlyDropsWithoutRemedy(t *testing.T) {
	var names []string
	for reason := range Reason(bpf.AliothReasonREASON_LEN) {
		if !reason.Routine() {
			continue
		}
		names = append(names, reason.String())
		if !reason.Drop() || reason.Remedy() != "" {
			t.Errorf("%s is routine, but its remedy is %q", reason, reason.Remedy())
		}
	}
	if want := []string{"arp_own", "nd_own", "router_solicitation", "mld"}; !slices.Equal(names, want) {
		t.Errorf("routine are %q, want %q", names, want)
	}
}

func TestDirections_EachOne_NameUnique(t *testing.T) {
	seen := map[string]bool{}
	for i, name := range directionNames {
		if name == "" || seen[name] {
			t.Errorf("direction %d is called %q", i, name)
		}
		seen[name] = true
	}
	if got := Direction(bpf.AliothDirectionDIRECTION_LEN).String(); !strings.HasPrefix(got, "direction_") {
		t.Errorf("an unknown direction is called %q", got)
	}
}

func TestReasonDrop_EachKind_OnlyDropsTrue(t *testing.T) {
	for reason, drop := range map[bpf.AliothReason]bool{
		bpf.AliothReasonFORWARDED_LOCAL: false, bpf.AliothReasonHOOK_REWRITTEN: false, bpf.AliothReasonSERVICE_REWRITTEN: false,
		bpf.AliothReasonDROP_UNKNOWN_INTERFACE: true, bpf.AliothReasonDROP_REWRITE_FAILED: true,
	} {
		if Reason(reason).Drop() != drop {
			t.Errorf("%s.Drop() is %t", Reason(reason), !drop)
		}
	}
}

// The programs and Go each name the fixed Ethernet address and the classes. This test compares
// the values of the C compiler with the constants of Go.
func TestConstants_GoAndPrograms_Equal(t *testing.T) {
	if int(bpf.AliothClosedClassCLOSED_CLASS_LEN) != int(state.ClosedBalancer)+1 {
		t.Errorf("%d classes of closed prefixes, the last in Go is %d", bpf.AliothClosedClassCLOSED_CLASS_LEN, state.ClosedBalancer)
	}
	if int(bpf.AliothAddressKindADDRESS_KIND_LEN) != int(state.HeldOutside)+1 {
		t.Errorf("%d kinds of addresses, the last in Go is %d", bpf.AliothAddressKindADDRESS_KIND_LEN, state.HeldOutside)
	}
	marks := []uint32{0, state.MarkShared, state.MarkEgress, state.MarkNode}
	for i, mark := range marks {
		if mark&^state.MarkMask != 0 || slices.Contains(marks[:i], mark) {
			t.Errorf("mark %#x of %#x is used twice or lies outside of %#x", mark, marks, state.MarkMask)
		}
	}
	spec, err := bpf.LoadAlioth()
	if err != nil {
		t.Fatal(err)
	}
	pinned := bpf.Pinnable(&bpf.AliothObjects{})
	for name := range spec.Maps {
		if _, ok := pinned[name]; strings.HasPrefix(name, bpf.Prefix) && !ok {
			t.Errorf("map %s is not pinned", name)
		}
	}
}
