// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Problems are all that is wrong with a document.
type Problems []error

// Add says what is wrong with the field of a path.
func (p *Problems) Add(path, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// Within checks a number that is there.
func (p *Problems) Within(path string, value *int, low, high int) {
	if value != nil && (*value < low || *value > high) {
		p.Add(path, "%d: want %d to %d", *value, low, high)
	}
}

// Word checks a word that is there.
func (p *Problems) Word(path, value string, words ...string) {
	if value != "" && !slices.Contains(words, value) {
		p.Add(path, "%s: want one of %s", value, strings.Join(words, ", "))
	}
}

// Uint32 checks a number that is there and has 32 bits.
func (p *Problems) Uint32(path string, value *int64) {
	if value != nil && (*value < 0 || *value > math.MaxUint32) {
		p.Add(path, "%d: want 0 to %d", *value, math.MaxUint32)
	}
}
