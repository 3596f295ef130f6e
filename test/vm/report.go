// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Outcomes of a test, as `go tool test2json` names them.
const (
	passed  = "pass"
	failed  = "fail"
	skipped = "skip"
)

// Report is the result of one package's tests on one kernel.
type Report struct {
	Package string
	// Tests are the package's own, and their subtests that were skipped.
	Tests []Result
	// Failure is how the test's process ended, if not well.
	Failure string
	// Output is everything that was printed outside of tests.
	Output string
	Took   time.Duration
	// Complete: the machine has all that its tests need, so that none may skip.
	Complete bool
}

// Result is the result of one test.
type Result struct {
	Name, Outcome string
	// Output is the output of the test and its subtests. Of a skipped one it is its own output.
	Output string
	Took   time.Duration
}

// event is an event of the stream that `go doc test2json` describes. Elapsed is in seconds.
type event struct {
	Action  string
	Package string  `json:",omitempty"`
	Test    string  `json:",omitempty"`
	Output  string  `json:",omitempty"`
	Elapsed float64 `json:",omitempty"`
}

// readEvents makes the report of a package from the events of its tests.
func readEvents(r io.Reader) (Report, error) {
	var report Report
	output, own := map[string]*strings.Builder{}, map[string]string{}
	decoder := json.NewDecoder(r)
	for {
		var e event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return report, fmt.Errorf("read the events of tests: %w", err)
		}
		name, _, sub := strings.Cut(e.Test, "/")
		if output[name] == nil {
			output[name] = &strings.Builder{}
		}
		output[name].WriteString(e.Output)
		own[e.Test] += e.Output
		switch {
		case e.Test != "" && e.Action == skipped:
			report.Tests = append(report.Tests, Result{Name: e.Test, Outcome: skipped, Output: own[e.Test]})
		case name != "" && !sub && (e.Action == passed || e.Action == failed):
			report.Tests = append(report.Tests, Result{
				Name: name, Outcome: e.Action, Output: output[name].String(), Took: time.Duration(e.Elapsed * float64(time.Second)),
			})
			delete(output, name)
		}
	}
	report.Output = leftover(output)
	return report, nil
}

// leftover returns the output that does not belong to a test that has ended.
func leftover(output map[string]*strings.Builder) string {
	var text strings.Builder
	names := make([]string, 0, len(output))
	for name := range output {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text.WriteString(output[name].String())
	}
	return text.String()
}

// count returns the number of tests with an outcome.
func (r Report) count(outcome string) int {
	n := 0
	for _, t := range r.Tests {
		if t.Outcome == outcome {
			n++
		}
	}
	return n
}

// problem describes the fault of the package apart from failed tests.
func (r Report) problem() string {
	switch {
	case r.Failure != "" && r.count(failed) == 0:
		return r.Failure
	case len(r.Tests) == 0:
		return "no test was run"
	case r.Complete && r.count(skipped) > 0:
		return fmt.Sprintf(
			"%d tests were skipped on a machine that has all that they need: see the reasons above",
			r.count(skipped),
		)
	}
	return ""
}

// Total counts tests.
type Total struct{ Passed, Failed, Skipped int }

// add counts a package's tests; a problem of the package is one failure more.
func (t *Total) add(r Report) {
	t.Passed += r.count(passed)
	t.Failed += r.count(failed)
	t.Skipped += r.count(skipped)
	if r.problem() != "" {
		t.Failed++
	}
}

// write prints a package's line, and below it the important lines for people: why tests were
// skipped, and the text printed outside of tests if that is the problem. The output of failed tests
// is left to writeFailures or writeEvents.
func (r Report) write(w io.Writer, kernel string) {
	verdict := "ok  "
	if r.count(failed) > 0 || r.problem() != "" {
		verdict = "FAIL"
	}
	fmt.Fprintf(w, "%s  linux %-6s %-58s %3d passed, %d failed, %d skipped  %5.1f s\n",
		verdict, kernel, r.Package, r.count(passed), r.count(failed), r.count(skipped), r.Took.Seconds())
	for _, t := range r.Tests {
		if t.Outcome == skipped {
			fmt.Fprintf(w, "      skipped %s: %s\n", t.Name, skipReason(t.Output))
		}
	}
	if problem := r.problem(); problem != "" {
		fmt.Fprintf(w, "%s\n%s: %s\n", r.Output, r.Package, problem)
	}
}

// writeFailures prints all that failed tests have printed.
func (r Report) writeFailures(w io.Writer) {
	for _, t := range r.Tests {
		if t.Outcome == failed {
			fmt.Fprint(w, t.Output)
		}
	}
}

// writeEvents prints the time of each test, and the output of failed ones, as `go test -json` does.
// The kernel is a part of the package's name.
func (r Report) writeEvents(w io.Writer, kernel string) error {
	encoder := json.NewEncoder(w)
	all := event{Action: passed, Package: "linux " + kernel + " " + r.Package, Elapsed: r.Took.Seconds()}
	if r.count(failed) > 0 || r.problem() != "" {
		all.Action = failed
	}
	for _, t := range r.Tests {
		if t.Outcome == skipped {
			continue
		}
		one := event{Action: t.Outcome, Package: all.Package, Test: t.Name, Elapsed: t.Took.Seconds()}
		if err := errors.Join(t.writeOutput(encoder, all.Package), encoder.Encode(one)); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
	}
	if err := encoder.Encode(all); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// writeOutput writes an event for each line of a failed test.
func (t Result) writeOutput(encoder *json.Encoder, path string) error {
	if t.Outcome != failed {
		return nil
	}
	for line := range strings.Lines(t.Output) {
		if err := encoder.Encode(event{Action: "output", Package: path, Test: t.Name, Output: line}); err != nil {
			return err
		}
	}
	return nil
}

// skipReason returns the last line that a skipped test has logged, without the place
// in its source.
func skipReason(output string) string {
	reason := "no reason given"
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			continue
		}
		reason = line
		if place, text, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
			reason = text
		}
	}
	return reason
}
