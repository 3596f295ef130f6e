// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"strings"
)

// Faults collects what can't be used of an object, with the field and the remedy.
type Faults []string

// Add adds a fault.
func (f *Faults) Add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// LongestFaults bounds the text of faults in bytes. It quotes values of users, and has to
// fit a condition.
const LongestFaults = 2000

// String joins the faults; it returns "" for none.
func (f *Faults) String() string {
	text := strings.Join(*f, "; ")
	if len(text) > LongestFaults {
		text = text[:LongestFaults] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
