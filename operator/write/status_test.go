// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package write_test

import (
	"testing"

	"github.com/alioth-net/alioth/operator/write"
)

// TestReadable_LargeNumber_Shortened: an IPv6 range has 2^53 free addresses in a status.
func TestReadable_LargeNumber_Shortened(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 254: "254", 1 << 32: "4294967296", 1e15: "1000000000000000", 1e15 + 1: ">1e15", 1 << 53: ">1e15"} {
		if got := write.Readable(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
