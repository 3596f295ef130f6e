// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/sound"
)

// Faults collects the unusable parts of an object, each with the field and the remedy.
type Faults []string

// Add adds a fault.
func (f *Faults) Add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// LongestFaults bounds the text of faults in bytes. It has to fit a condition.
const LongestFaults = 1000

// String joins the faults; it returns "" for none.
func (f *Faults) String() string { return quote.Bounded(strings.Join(*f, "; "), LongestFaults) }

// Text returns a text that fits into a row, and "" with a fault for another one.
func (f *Faults) Text(field, text string) string {
	if err := sound.Texts(text); err != nil {
		f.Add("%s: %v", field, err)
		return ""
	}
	return text
}

// Texts returns the texts that fit into a row, with a fault for each other one.
func (f *Faults) Texts(field string, texts []string) (list []string) {
	for _, text := range texts {
		if f.Text(field, text) == text {
			list = append(list, text)
		}
	}
	return list
}
