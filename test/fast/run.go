// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/test/lanes/events"
	"github.com/alioth-net/alioth/test/needs"
)

// run counts the results of tests.
type run struct {
	reader events.Reader
	lines  events.Lines
	// passed counts tests, without their subtests.
	passed int
	// needing counts the tests that were left out by their needs, and other the rest of the skipped
	// tests by their reason.
	needing, other map[string]int
}

func newRun(out io.Writer) *run {
	r := &run{needing: map[string]int{}, other: map[string]int{}}
	r.reader = events.Reader{
		Print: func(line string) {
			if !routine(line) {
				fmt.Fprintln(out, line)
			}
		},
		Passed: func(_, name string, _ []string) {
			if !strings.Contains(name, "/") {
				r.passed++
			}
		},
		Skipped: func(_, _, reason string) { r.skip(reason) },
	}
	r.lines.Take = r.reader.Line
	return r
}

// routine reports whether a line says only that a package passed, or that it has no tests. Other
// lines that begin with a tab belong to messages of the compiler and to stacks.
func routine(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "\t") && strings.Contains(line, "coverage: ")
}

func (r *run) skip(reason string) {
	if thing, ok := needs.Of(reason); ok {
		r.needing[thing]++
		return
	}
	r.other[reason]++
}

func (r *run) close() {
	r.lines.Flush()
	r.reader.Close()
}

// write prints the end of the output.
func (r *run) write(out io.Writer) {
	for _, f := range r.reader.Failures {
		fmt.Fprintf(out, "FAILED %s %s\n", f.Package, f.Name)
	}
	fmt.Fprintf(out, "%d tests passed, %d failed\n", r.passed, len(r.reader.Failures))
	if len(r.needing) > 0 {
		fmt.Fprintln(out, "left out, for make test:")
		writeCounts(out, r.needing, "need ")
	}
	if len(r.other) > 0 {
		fmt.Fprintln(out, "skipped for other reasons:")
		writeCounts(out, r.other, "")
	}
}

// writeCounts prints numbers of tests, the largest first.
func writeCounts(out io.Writer, counts map[string]int, before string) {
	for _, reason := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	}) {
		fmt.Fprintf(out, "  %4d %s%s\n", counts[reason], before, reason)
	}
}
