// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/test/lanes/events"
)

const (
	// shownLines is how many of the last lines of a failure the end of the output repeats.
	shownLines = 8
	// shownMessages is how many of a test's own messages it repeats besides. A log that the
	// test prints at its end would hide them.
	shownMessages = 4
	// shownBytes is how much of a line it repeats.
	shownBytes = 400
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
			writeLines(out, o.Last)
		}
		for i, f := range o.Failures {
			if i == shownFailures {
				fmt.Fprintf(out, "  and %d more tests\n", len(o.Failures)-i)
				break
			}
			fmt.Fprintf(out, "  %s %s\n", f.Package, f.Name)
			writeLines(out, said(f))
		}
	}
}

// message is the beginning of what a test says by its own methods.
var message = regexp.MustCompile(`^ +[a-zA-Z0-9_]+\.go:[0-9]+: `)

// said returns a test's first messages and its last lines, without those that Go prints of
// any test.
func said(f events.Failure) []string {
	lines := slices.DeleteFunc(slices.Clone(f.Output), func(line string) bool { return strings.HasPrefix(line, "=== ") })
	rest := max(0, len(lines)-shownLines)
	var shown []string
	for _, line := range lines[:rest] {
		if message.MatchString(line) && len(shown) < shownMessages {
			shown = append(shown, line)
		}
	}
	return append(shown, lines[rest:]...)
}

func writeLines(out io.Writer, lines []string) {
	for _, line := range lines {
		if len(line) > shownBytes {
			line = line[:shownBytes] + " ..."
		}
		fmt.Fprintf(out, "    %s\n", line)
	}
}
