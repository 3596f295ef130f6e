// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package quote

import "regexp"

// passing are the parts of a message that differ with each try although the cause is the same:
// times, and the ports that the kernel chose for connections.
var passing = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)|:\d+->`)

// SameCause reports whether two messages about failures tell the same cause. A reporter of a
// lasting failure keeps the first message, which has the time when the failure began.
func SameCause(a, b string) bool {
	return a == b || passing.ReplaceAllString(a, "") == passing.ReplaceAllString(b, "")
}
