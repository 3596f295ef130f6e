// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alioth-net/alioth/test/lanes/events"
)

const (
	// shownLines is how many lines of a failure the end of the output repeats.
	shownLines = 8
	// shownFailures is how many failed tests of one step it repeats.
	shownFailures = 6
)

// writeFailures repeats in short what failed, so that the last lines of the output
// are enough to know it.
func writeFailures(out io.Writer, all []outcome) {
	for _, o := range all {
		if o.Err == nil {
			continue
		}
		fmt.Fprintf(out, "\nFAILED %s: %v; the whole output is in the log of the lane %s\n", o.Step, o.Err, o.Lane)
		if len(o.Failures) == 0 {
			writeLast(out, o.Last)
		}
		for i, f := range o.Failures {
			if i == shownFailures {
				fmt.Fprintf(out, "  and %d more tests\n", len(o.Failures)-i)
				break
			}
			fmt.Fprintf(out, "  %s %s\n", f.Package, f.Name)
			writeLast(out, said(f))
		}
	}
}

// said returns a test's lines without those that Go prints of any test.
func said(f events.Failure) (lines []string) {
	for _, line := range f.Output {
		if !strings.HasPrefix(line, "=== ") {
			lines = append(lines, line)
		}
	}
	return lines
}

func writeLast(out io.Writer, lines []string) {
	for _, line := range lines[max(0, len(lines)-shownLines):] {
		fmt.Fprintf(out, "    %s\n", line)
	}
}
