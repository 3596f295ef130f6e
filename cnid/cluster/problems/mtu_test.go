// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package problems

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

func TestMTUProblem_EachAttachmentKind_OnlyInsideVPC(t *testing.T) {
	record := func(name, outside string, mtu int, phase journal.Phase, ips ...string) journal.Record {
		rec := journal.Record{}
		rec.Pod.Namespace, rec.Pod.Name, rec.Phase = "shop", name, phase
		rec.Outside, rec.MTU = outside, mtu
		for _, ip := range ips {
			rec.Addrs = append(rec.Addrs, netip.MustParsePrefix(ip))
		}
		return rec
	}
	for name, c := range map[string]struct {
		record journal.Record
		want   []string
	}{
		"it fits":                   {record("fits", "", 1400, journal.PhaseDone, "10.10.1.2/24"), nil},
		"too large":                 {record("large", "", 1450, journal.PhaseDone, "10.10.1.2/24"), []string{v1alpha1.PodMTUTooLargeReason}},
		"not finished":              {record("new", "", 1450, journal.PhaseIntended, "10.10.1.2/24"), nil},
		"outside of every VPC":      {record("vf", "sriov", 9000, journal.PhaseDone, "10.10.1.2/24"), nil},
		"outside, IPv6, small ways": {record("vf6", "sriov", 1280, journal.PhaseDone, "fd10::2/64"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reasons(mtuProblems([]journal.Record{c.record}, 1400)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	below := record("six", "", 1280, journal.PhaseDone, "fd10::2/64")
	outside := record("vf", "sriov", 1280, journal.PhaseDone, "fd10::2/64")
	if got := mtuProblems([]journal.Record{below, outside}, 1200); !slices.Equal(reasons(got), []string{v1alpha1.MTUBelowIPv6Reason}) {
		t.Errorf("got %v, want one problem, of the pod in a VPC", got)
	}
}

func reasons(problems []finding.Problem) []string {
	var list []string
	for _, p := range problems {
		list = append(list, p.Reason)
	}
	return list
}
