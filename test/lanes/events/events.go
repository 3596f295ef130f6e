// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events turns the events that `go test -json` prints (go doc test2json), between lines of
// other programs, into text for people.
package events

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Test is a test of a package that has run, subtests not among them.
type Test struct {
	Package, Name string
	Took          time.Duration
}

// Failure is a test that failed or did not end. Without a name it is a package that failed although
// none of its tests failed.
type Failure struct {
	Package, Name string
	// Output holds the lines of the test and of its subtests.
	Output []string
	// Again names the smallest part that has to pass to refute the failure: the test, one
	// subtest that failed alone, or "" for the whole package.
	Again string
	// Final failures hide the results of other tests, so no repetition refutes them.
	Final bool
}

// Reader reads lines, and prints the important ones for people: each package's result, all that
// failed tests have printed, why tests were skipped, and every line without an event.
type Reader struct {
	// Print gets lines for people.
	Print func(line string)
	// Verbose prints the lines of all tests as they come.
	Verbose bool
	// Passed, if set, gets tests and subtests that have passed. The output is the output of the
	// test and all its subtests so far.
	Passed func(path, name string, output []string)
	// Skipped, if set, gets tests and subtests that were skipped, instead of a line for people.
	Skipped func(path, name, reason string)
	// Tests have run so far; those whose result Go knew from before have not.
	Tests []Test
	// Failures are in the order of the tests' ends.
	Failures []Failure

	packages map[string]*pkg
}

// Message is the beginning of a line that a test prints by its own methods.
var Message = regexp.MustCompile(`^ +[a-zA-Z0-9_]+\.go:[0-9]+: `)

// pkg is a package whose tests run.
type pkg struct {
	// output of tests that have not ended, by name.
	output map[string][]string
	// tests have ended, and count unless cached.
	tests  []Test
	cached bool
	// failed are tests and subtests that failed, and told the tests that logged something.
	failed    []string
	announced map[string]bool
	// said has the output of the process besides its tests.
	lines []string
	// begun is set once a test began, complete once the process has told the result of all
	// tests, and refused if the package could not be built.
	begun, complete, refused bool
}

// event is an event that `go doc test2json` or, for the compiler's messages, `go help buildjson`
// describes.
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
		r.packages[path] = &pkg{output: map[string][]string{}, announced: map[string]bool{}}
	}
	return r.packages[path]
}

// ofPackage takes an event about a package as a whole.
func (r *Reader) ofPackage(e event, text string) {
	p := r.at(e.Package)
	switch e.Action {
	case "output":
		p.cached = p.cached || strings.HasSuffix(text, "\t(cached)")
		p.complete = p.complete || text == "PASS" || text == "FAIL"
		p.refused = p.refused || strings.HasSuffix(text, " failed]")
		p.lines = append(p.lines, text)
		if text != "PASS" && text != "FAIL" && !strings.HasPrefix(text, "?   \t") {
			r.Print(text)
		}
	case "pass", "fail", "skip":
		if e.Action == "fail" {
			r.failPackage(e.Package, p)
		}
		r.end(e.Package, p)
	}
}

// failPackage keeps the failure of a package that no failure of its tests explains. A process
// that ended in the middle of its tests, by a panic for example, hides the results of others.
func (r *Reader) failPackage(path string, p *pkg) {
	hidden := p.begun && !p.complete
	if len(p.failed) == 0 && len(p.output) == 0 { // end keeps tests that did not end
		r.Failures = append(r.Failures, Failure{Package: path, Output: p.lines, Final: hidden || p.refused})
	}
	for i := range r.Failures {
		f := &r.Failures[i]
		f.Final = f.Final || hidden && f.Package == path
	}
}

// end prints the output of tests that have not ended, which is where a process ended before them,
// and counts the others.
func (r *Reader) end(path string, p *pkg) {
	for _, name := range slices.Sorted(maps.Keys(p.output)) {
		r.Print("--- DID NOT END: " + name)
		r.fail(path, name, p, true)
	}
	if !p.cached {
		r.Tests = append(r.Tests, p.tests...)
	}
	delete(r.packages, path)
}

// Close ends packages that have not ended by themselves.
func (r *Reader) Close() {
	for _, path := range slices.Sorted(maps.Keys(r.packages)) {
		p := r.packages[path]
		r.Failures = append(
			r.Failures,
			Failure{Package: path, Output: append(p.lines, "the package did not end"), Final: true},
		)
		r.end(path, p)
	}
}

// ofTest takes an event about a test. The output of subtests goes with their test.
func (r *Reader) ofTest(e event, text string) {
	p := r.at(e.Package)
	name, _, sub := strings.Cut(e.Test, "/")
	p.begun = true
	switch e.Action {
	case "output":
		p.output[name] = append(p.output[name], text)
		if r.Verbose {
			r.Print(text)
		}
		if Message.MatchString(text) {
			p.announced[e.Test] = true
		}
	case "skip":
		r.skip(e.Package, e.Test, reason(p.output[name]))
		if !sub {
			delete(p.output, name)
		}
	case "pass", "fail":
		if e.Action == "fail" {
			p.failed = append(p.failed, e.Test)
		} else if r.Passed != nil {
			r.Passed(e.Package, e.Test, p.output[name])
		}
		if sub {
			return
		}
		if e.Action == "fail" {
			r.fail(e.Package, name, p, false)
		}
		delete(p.output, name)
		p.tests = append(p.tests, Test{Package: e.Package, Name: name, Took: time.Duration(e.Elapsed * float64(time.Second))})
	}
}

func (r *Reader) skip(path, name, reason string) {
	if r.Skipped != nil {
		r.Skipped(path, name, reason)
		return
	}
	r.Print(fmt.Sprintf("skipped %s: %s", name, reason))
}

// fail keeps the output of a test that failed, and prints it unless that was done.
func (r *Reader) fail(path, name string, p *pkg, final bool) {
	if !r.Verbose {
		for _, line := range p.output[name] {
			r.Print(line)
		}
	}
	r.Failures = append(
		r.Failures,
		Failure{Package: path, Name: name, Output: p.output[name], Again: p.again(name), Final: final},
	)
}

// again returns the part of a failed test that is to be repeated: the one subtest that failed,
// or the test itself. A message of the test or of a subtest above the failed one can be the
// reason of the failure as well, so the whole test is repeated then.
func (p *pkg) again(test string) string {
	deepest := test
	for _, name := range p.failed { // subtests end before their test
		if !strings.HasPrefix(name, test+"/") || strings.HasPrefix(deepest, name+"/") {
			continue
		}
		if deepest != test {
			return test
		}
		deepest = name
	}
	for above := range p.announced {
		if strings.HasPrefix(deepest, above+"/") {
			return test
		}
	}
	return deepest
}

// reason returns the last line that a skipped test has logged, without its place.
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
