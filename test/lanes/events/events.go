// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events makes what people read of the events that `go test -json` prints
// (go doc test2json), between lines of other programs.
package events

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Test is a test of a package that has run, subtests not among them.
type Test struct {
	Package, Name string
	Took          time.Duration
}

// Failure is a test that failed or did not end.
type Failure struct {
	Package, Name string
	// Output holds the lines of the test and of its subtests.
	Output []string
}

// Reader reads lines, and prints what people have to know: each package's result,
// all that failed tests have printed, why tests were skipped, and every line that
// is no event.
type Reader struct {
	// Print gets lines for people.
	Print func(line string)
	// Tests have run so far; those whose result Go knew from before have not.
	Tests []Test
	// Failures are in the order in which the tests ended.
	Failures []Failure

	packages map[string]*pkg
}

// pkg is a package whose tests run.
type pkg struct {
	// output of tests that have not ended, by name.
	output map[string][]string
	// tests have ended, and count unless cached.
	tests  []Test
	cached bool
}

// event is one that `go doc test2json` or, for the compiler's messages,
// `go help buildjson` describes.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// Line takes a line, without its end.
func (r *Reader) Line(line string) {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		r.Print(line)
		return
	}
	text := strings.TrimSuffix(e.Output, "\n")
	switch {
	case e.Action == "build-output":
		r.Print(text)
	case e.Package == "":
	case e.Test == "":
		r.ofPackage(e, text)
	default:
		r.ofTest(e, text)
	}
}

func (r *Reader) at(path string) *pkg {
	if r.packages == nil {
		r.packages = map[string]*pkg{}
	}
	if r.packages[path] == nil {
		r.packages[path] = &pkg{output: map[string][]string{}}
	}
	return r.packages[path]
}

// ofPackage takes what concerns a package as a whole.
func (r *Reader) ofPackage(e event, text string) {
	p := r.at(e.Package)
	switch e.Action {
	case "output":
		p.cached = p.cached || strings.HasSuffix(text, "\t(cached)")
		if text != "PASS" && text != "FAIL" && !strings.HasPrefix(text, "?   \t") {
			r.Print(text)
		}
	case "pass", "fail", "skip":
		r.end(e.Package, p)
	}
}

// end prints what belongs to tests that have not ended, which is where a process
// ended before them, and counts the others.
func (r *Reader) end(path string, p *pkg) {
	for _, name := range slices.Sorted(maps.Keys(p.output)) {
		r.Print("--- DID NOT END: " + name)
		r.fail(path, name, p)
	}
	if !p.cached {
		r.Tests = append(r.Tests, p.tests...)
	}
	delete(r.packages, path)
}

// Close ends packages that have not ended by themselves.
func (r *Reader) Close() {
	for _, path := range slices.Sorted(maps.Keys(r.packages)) {
		r.end(path, r.packages[path])
	}
}

// ofTest takes what concerns a test. What subtests print goes with their test.
func (r *Reader) ofTest(e event, text string) {
	p := r.at(e.Package)
	name, _, sub := strings.Cut(e.Test, "/")
	switch e.Action {
	case "output":
		p.output[name] = append(p.output[name], text)
	case "skip":
		r.Print(fmt.Sprintf("skipped %s: %s", e.Test, reason(p.output[name])))
		if !sub {
			delete(p.output, name)
		}
	case "pass", "fail":
		if sub {
			return
		}
		if e.Action == "fail" {
			r.fail(e.Package, name, p)
		}
		delete(p.output, name)
		p.tests = append(p.tests, Test{Package: e.Package, Name: name, Took: time.Duration(e.Elapsed * float64(time.Second))})
	}
}

// fail prints the output of a test that failed, and keeps it.
func (r *Reader) fail(path, name string, p *pkg) {
	for _, line := range p.output[name] {
		r.Print(line)
	}
	r.Failures = append(r.Failures, Failure{Package: path, Name: name, Output: p.output[name]})
}

// reason is the last line that a skipped test has logged, without its place.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			continue
		}
		if place, text, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
			return text
		}
		return line
	}
	return "no reason given"
}
