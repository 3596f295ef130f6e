// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// loopbackMTU is the kernel's of a new loopback device (loopback_setup of Linux).
const loopbackMTU = 65536

// resetLoopback is a loopback interface without settings: it stays, as it is at a boot.
func resetLoopback(have document.Interface) *document.Interface {
	i := &document.Interface{
		Name: have.Name, Type: have.Type, State: document.Up, Description: new(""), MTU: new(loopbackMTU),
		AcceptAllMACAddresses: new(false), IPv4: bare(nil), IPv6: bare(nil),
	}
	keepOwnAddresses(i, have)
	return i
}

// keepOwnAddresses adds 127.0.0.1/8 and ::1/128 to the lists of a loopback interface that has
// them: programs of the node use them, so a list that lacks them does not remove them.
func keepOwnAddresses(i *document.Interface, have document.Interface) {
	keepAddress(i.IPv4, have.IPv4, document.Address{IP: "127.0.0.1", PrefixLength: 8})
	keepAddress(i.IPv6, have.IPv6, document.Address{IP: "::1", PrefixLength: 128})
}

// keepAddress puts an address that is there first in the list that shall be, if it lacks it.
func keepAddress(ip, have *document.IP, own document.Address) {
	if ip == nil || ip.Addresses == nil || compare.IsFalse(ip.Enabled) {
		return
	}
	same := func(a document.Address) bool {
		return compare.CanonicalAddress(a.IP) == own.IP && a.PrefixLength == own.PrefixLength
	}
	if slices.ContainsFunc(addressesOf(have), same) && !slices.ContainsFunc(ip.Addresses, same) {
		ip.Addresses = append([]document.Address{own}, ip.Addresses...)
	}
}
