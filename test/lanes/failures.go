// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/test/lanes/events"
)

const (
	// shownLines is how many of the last lines of a failure the end of the output repeats, and
	// flakyLines how many of each of both outputs of a flaky test.
	shownLines, flakyLines = 8, 60
	// shownMessages is how many of a test's own messages it repeats besides. A log that the
	// test prints at its end would hide them.
	shownMessages = 4
	// shownBytes is how much of a line it repeats.
	shownBytes = 400
	// shownFailures is how many failed tests of one step it repeats.
	shownFailures = 6
)

// writeFailures repeats the failures in short, so that the last lines of the output are enough to
// know them.
func writeFailures(out io.Writer, all []outcome) {
	for _, o := range all {
		if !o.failed() {
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
			writeLines(out, excerpt(f.Output, shownLines))
		}
		for _, again := range o.Repeats {
			fmt.Fprintf(out, "  repeated alone: %s: %s\n", again, again.result())
			if again.Err != nil {
				writeLines(out, excerpt(again.Output, shownLines))
			}
		}
	}
}

// writeFlaky prints both outputs of each test that failed and then passed alone.
func writeFlaky(out io.Writer, all []outcome) {
	for _, o := range all {
		for _, again := range o.Repeats {
			if again.Err != nil {
				continue
			}
			fmt.Fprintf(
				out,
				"\nFLAKY %s of %s: it failed, and passed alone after the rest of the run; mend it, or name it where you report the run\n",
				again,
				o.Step,
			)
			fmt.Fprintln(out, "  when it failed:")
			writeLines(out, excerpt(again.Failure.Output, flakyLines))
			fmt.Fprintln(out, "  when it passed:")
			writeLines(out, excerpt(again.Output, flakyLines))
		}
	}
	if count := flaky(all); count > mostFlaky {
		fmt.Fprintf(out, "\nFAILED: %d tests are flaky, more than %d\n", count, mostFlaky)
	}
}

// excerpt returns a test's first messages and its last lines, without the lines that Go prints of
// any test, and without lines of subtests that passed.
func excerpt(output []string, last int) []string {
	lines := slices.DeleteFunc(slices.Clone(output), func(line string) bool {
		return strings.HasPrefix(line, "=== ") || strings.HasPrefix(strings.TrimSpace(line), "--- PASS: ")
	})
	rest := max(0, len(lines)-last)
	var shown []string
	for _, line := range lines[:rest] {
		if events.Message.MatchString(line) && len(shown) < shownMessages {
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
