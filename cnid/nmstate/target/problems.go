// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"slices"
	"strings"
)

// problems are all that is wrong with a document.
type problems []error

// add says what is wrong with the field of a path.
func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// within checks a number that is there.
func (p *problems) within(path string, value *int, low, high int) {
	if value != nil && (*value < low || *value > high) {
		p.add(path, "%d: want %d to %d", *value, low, high)
	}
}

// word checks a word that is there.
func (p *problems) word(path, value string, words ...string) {
	if value != "" && !slices.Contains(words, value) {
		p.add(path, "%s: want one of %s", value, strings.Join(words, ", "))
	}
}

const maxUint32 = 1<<32 - 1

// uint32 checks a number that is there and has 32 bits.
func (p *problems) uint32(path string, value *int64) {
	if value != nil && (*value < 0 || *value > maxUint32) {
		p.add(path, "%d: want 0 to %d", *value, maxUint32)
	}
}
