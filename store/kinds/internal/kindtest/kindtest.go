// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kindtest has helpers for the tests of several areas of kinds, to compare rows with.
package kindtest

import (
	"net/netip"

	"github.com/google/go-cmp/cmp"
)

// EqualRows compares addresses in rows by value: types of netip have unexported fields.
var EqualRows = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// Addrs parses addresses, and panics at one that is malformed.
func Addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}
