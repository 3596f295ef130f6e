// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import "strings"

// olderVersion reports whether resource version a is older than b. Kubernetes defines resource
// versions as decimal numbers that can be compared within one kind. A text that is not such a
// number, also the empty text, is never older.
func olderVersion(a, b string) bool {
	if !decimal(a) || !decimal(b) {
		return false
	}
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

func decimal(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}
