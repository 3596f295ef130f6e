// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"maps"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

func TestShare_Programs_BalancedByLength(t *testing.T) {
	programs := map[string]*ebpf.ProgramSpec{}
	for i, length := range []int{7, 1, 6, 5, 5, 1, 1} {
		programs[fmt.Sprint(i)] = &ebpf.ProgramSpec{Instructions: make(asm.Instructions, length)}
	}
	for _, c := range []struct{ n, shares, longest int }{{1, 1, 26}, {2, 2, 13}, {3, 3, 10}, {20, 7, 7}} {
		together, longest := map[string]*ebpf.ProgramSpec{}, 0
		shares := share(programs, c.n)
		for _, s := range shares {
			length := 0
			for _, p := range s {
				length += len(p.Instructions)
			}
			longest = max(longest, length)
			maps.Copy(together, s)
		}
		if len(shares) != c.shares || longest != c.longest || !maps.Equal(together, programs) {
			t.Errorf("%d processors: %d shares, the longest has %d instructions, together %d programs; want %d, %d and %d",
				c.n, len(shares), longest, len(together), c.shares, c.longest, len(programs))
		}
	}
}
