// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package quote_test

import (
	"testing"

	"github.com/alioth-net/alioth/api/quote"
)

func TestSameCause_OtherTimeOrPort_Equal(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"it fails", "it fails", true},
		{"no answer since 2026-01-02T03:04:05Z, asked twice", "no answer since 2027-12-31T23:59:59Z, asked twice", true},
		{"since 2026-01-02T03:04:05.678+01:00", "since 2026-01-02T03:04:06-05:30", true},
		{"read udp 192.0.2.7:40001->192.0.2.53:53: i/o timeout", "read udp 192.0.2.7:40002->192.0.2.53:53: i/o timeout", true},
		{"read udp 192.0.2.7:40001->192.0.2.53:53: i/o timeout", "read udp 192.0.2.7:40001->192.0.2.54:53: i/o timeout", false},
		{"dial tcp 192.0.2.1:444: refused", "dial tcp 192.0.2.1:445: refused", false},
		{"eth0.mtu: expected 1400, found 1500", "eth0.mtu: expected 1400, found 1501", false},
	} {
		if got := quote.SameCause(c.a, c.b); got != c.same {
			t.Errorf("%q and %q: %t, want %t", c.a, c.b, got, c.same)
		}
	}
}
