// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"slices"
	"strings"
)

// ReservedPrefixes begin the names of Alioth's own devices on the nodes. No name that comes
// from outside begins with one of them. The CRDs of DANM's networks and api/annotations
// have the same prefixes; a test of cnid/forward/netdev/hostdev compares them.
var ReservedPrefixes = []string{"alv", "alioth"}

// ReservedDevice reports whether a name of a device, or the beginning of one, is reserved.
func ReservedDevice(name string) bool {
	return slices.ContainsFunc(ReservedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
