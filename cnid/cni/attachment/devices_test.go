// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

func TestDevicePool_SeveralInterfaces_AssignedInOrder(t *testing.T) {
	ids := map[string][]string{"x/fast": {"0000:03:10.0", "0000:03:10.2"}, "x/slow": {"0000:04:00.1"}, "x/sub": {"mlx5_core.sf.2"}, "x/path": {"../../../etc"}}
	for _, tc := range []struct {
		name  string
		pools []string
		want  []string
		cause string
	}{
		{name: "no devices", pools: []string{"", ""}, want: []string{"", ""}},
		{name: "two pools", pools: []string{"x/fast", "", "x/slow", "x/fast"}, want: []string{"0000:03:10.0", "", "0000:04:00.1", "0000:03:10.2"}},
		{name: "fewer than interfaces", pools: []string{"x/slow", "x/slow"}, cause: "has allocated 1 device(s) of x/slow to the pod, and interface net1 needs one more"},
		{name: "none of the pool", pools: []string{"x/none"}, cause: "0 device(s) of x/none"},
		{name: "a device that is no PCI function", pools: []string{"x/sub"}, cause: `"mlx5_core.sf.2" of x/sub has no PCI address`},
		{name: "an ID that is a path", pools: []string{"x/path"}, cause: "has no PCI address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var decisions []Decision
			for i, pool := range tc.pools {
				decisions = append(
					decisions,
					Decision{Attachment: []string{"net0", "net1", "net2", "net3"}[i], Interface: journal.Interface{Config: netif.Config{Pool: pool}}},
				)
			}
			given, err := assign(decisions, ids)
			if tc.cause != "" {
				if err == nil || !strings.Contains(err.Error(), tc.cause) {
					t.Errorf("got %v, want %q", err, tc.cause)
				}
				return
			}
			var got []string
			for _, d := range given {
				got = append(got, d.PCI)
			}
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
			if decisions[0].PCI != "" {
				t.Error("the decisions that were handed in have changed")
			}
		})
	}
}
