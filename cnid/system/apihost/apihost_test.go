// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package apihost

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// passes counts requests for passes.
type passes int

// Ask implements Passes.
func (p *passes) Ask() uint64 {
	*p++
	return 0
}

func TestAPIHost_Name_ResolvedAndCachedForWhile(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	var reported []netip.Addr
	var failure error
	var changes passes
	lookup := func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != "api.example" {
			t.Errorf("asked for %q", host)
		}
		return reported, failure
	}
	f := New("api.example", lookup, &changes, slog.New(slog.DiscardHandler))
	began := time.Unix(1000, 0)
	steps := []struct {
		name     string
		reported []netip.Addr
		failure  error
		after    time.Duration
		want     []netip.Addr
		changes  passes
	}{
		{"nothing yet", nil, errors.New("no server"), 0, nil, 0},
		{"the first, in the form of IPv6", []netip.Addr{netip.AddrFrom16(a.As16())}, nil, time.Second, []netip.Addr{a}, 1},
		{"another in its place", []netip.Addr{b}, nil, time.Minute, []netip.Addr{a, b}, 2},
		{"the same", []netip.Addr{b}, nil, 2 * time.Minute, []netip.Addr{a, b}, 2},
		{"an error", nil, errors.New("no server"), 3 * keep, []netip.Addr{a, b}, 2},
		{"the first was named too long ago", []netip.Addr{b}, nil, 3 * keep, []netip.Addr{b}, 3},
	}
	for _, s := range steps {
		reported, failure = s.reported, s.failure
		if err := f.look(t.Context(), began.Add(s.after)); !errors.Is(err, s.failure) {
			t.Errorf("%s: %v", s.name, err)
		}
		if got := f.Addresses(); !slices.Equal(got, s.want) || changes != s.changes {
			t.Errorf("%s: %v after %d changes, want %v after %d", s.name, got, changes, s.want, s.changes)
		}
	}
}

func TestAPIHost_Address_NotLookedUp(t *testing.T) {
	for _, host := range []string{"", "192.0.2.1", "2001:db8::1"} {
		f := New(host, func(context.Context, string) ([]netip.Addr, error) {
			t.Errorf("%q was looked up", host)
			return nil, nil
		}, new(passes), slog.New(slog.DiscardHandler))
		f.Run(t.Context())
		if got := f.Addresses(); len(got) != 0 {
			t.Errorf("%q stands for %v", host, got)
		}
	}
}
