// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/alioth-net/alioth/test/lanes/events"
)

// result reads the output of `go test -json` about the run of one test, and prints it as `go test
// -v` does.
type result struct {
	lines  events.Lines
	reader events.Reader
	// name is the test as Go writes it.
	name string
	// passed is true once the test has passed; skipped is set once it was left out.
	passed  bool
	skipped error
}

func newResult(out io.Writer, name string) *result {
	r := &result{name: written(name)}
	r.reader = events.Reader{
		Verbose: true,
		Print:   func(line string) { fmt.Fprintln(out, line) },
		Passed:  func(_, name string, _ []string) { r.passed = r.passed || name == r.name },
		Skipped: func(_, name, reason string) {
			if name == r.name || strings.HasPrefix(r.name, name+"/") {
				r.skipped = fmt.Errorf("the test was skipped: %s", reason)
			}
		},
	}
	r.lines.Take = r.reader.Line
	return r
}

// written returns a name of a test as Go writes it, with underscores for spaces.
func written(name string) string {
	return strings.Map(func(char rune) rune {
		if unicode.IsSpace(char) {
			return '_'
		}
		return char
	}, name)
}

func (r *result) close() {
	r.lines.Flush()
	r.reader.Close()
}

// err returns an error if a run without a failure ran nothing of the test. Go itself reports a
// success then.
func (r *result) err() error {
	switch {
	case r.skipped != nil:
		return r.skipped
	case !r.passed:
		return errors.New("no test of this name ran; subtests have the names that go test -v prints")
	}
	return nil
}
