// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ifdriver

import (
	"net/netip"
	"slices"
)

// MinMTU6 is the smallest MTU in bytes that IPv6 works with (RFC 8200 section
// 5). A device with less has no IPv6 at all.
const MinMTU6 = 1280

// PodMTU returns the MTU in bytes of a pod with these addresses where the
// node's network carries packets of pods up to so many bytes.
func PodMTU(carried int, addrs []netip.Prefix) int {
	if slices.ContainsFunc(addrs, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		return max(carried, MinMTU6)
	}
	return carried
}
