// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/lanes/events"
)

const (
	// mostFlaky is how many flaky tests a run may have that passes.
	mostFlaky = 2
	// mostRepeats is how many failures are repeated. More of them have one cause, a change or a
	// broken machine, and the run fails in any case.
	mostRepeats = 6
	// repeatTarget is the target of the Makefile that repeats one test of a step.
	repeatTarget = "repeat"
)

// repeat is a failed test that ran once more, alone.
type repeat struct {
	// Failure is the first result.
	Failure events.Failure
	Took    time.Duration
	// Err is nil if the test ran and passed.
	Err error
	// Output is of the second time.
	Output []string
}

// String names the repeated test.
func (r repeat) String() string {
	return r.Failure.Package + " " + cmp.Or(r.Failure.Again, "(all its tests)")
}

func (r repeat) result() string {
	if r.Err != nil {
		return "failed again: " + r.Err.Error()
	}
	return "passed"
}

// failed reports whether a step failed and no repetition refutes that.
func (o outcome) failed() bool {
	if o.Err == nil {
		return false
	}
	refuted := len(o.Failures) > 0 && len(o.Repeats) == len(o.Failures) &&
		!slices.ContainsFunc(o.Repeats, func(again repeat) bool { return again.Err != nil })
	return !refuted
}

// flaky counts tests that failed and then passed alone.
func flaky(all []outcome) (count int) {
	for _, o := range all {
		for _, again := range o.Repeats {
			if again.Err == nil {
				count++
			}
		}
	}
	return count
}

// repeatAll repeats failed tests, one at a time, once all lanes have ended. An interrupted run
// repeats nothing.
func (r *run) repeatAll(ctx context.Context, results [][]outcome) {
	count := 0
	for _, o := range slices.Concat(results...) {
		count += len(r.refutable(o))
	}
	if count == 0 || ctx.Err() != nil {
		return
	}
	if count > mostRepeats {
		r.print(repeatTarget, fmt.Sprintf("%d tests failed; more than %d are not repeated", count, mostRepeats))
		return
	}
	for i, l := range r.Lanes {
		if slices.ContainsFunc(results[i], func(o outcome) bool { return len(r.refutable(o)) > 0 }) {
			results[i] = r.repeatLane(ctx, l, results[i])
		}
	}
}

// refutable returns the failures of a step that a repetition can refute. If a step ended by another
// cause than its tests, not all of its failures are known.
func (r *run) refutable(o outcome) (failures []events.Failure) {
	if o.Err == nil || !slices.Contains(r.Repeats, o.Step) || slices.ContainsFunc(o.Last, otherwise) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(o.Failures), func(f events.Failure) bool { return f.Final })
}

// makeError is how make reports the exit code of a command, which is 1 for failed tests.
var makeError = regexp.MustCompile(`^make(\[\d+\])?: \*\*\* .*\] (Error (\d+)|.*)$`)

// otherwise reports whether a line of make says that a command ended by a signal, or by another
// code than the code of failed tests.
func otherwise(line string) bool {
	parts := makeError.FindStringSubmatch(line)
	return parts != nil && parts[3] != "1"
}

// repeatLane repeats the failed tests of a lane. The final step of the lane runs again after them.
func (r *run) repeatLane(ctx context.Context, l lane, done []outcome) []outcome {
	log, err := os.OpenFile(r.logOf(l.Name), unix.O_APPEND|unix.O_WRONLY, 0)
	if err != nil {
		return append(done, outcome{Lane: l.Name, Step: "log", Err: err})
	}
	defer log.Close()
	for i := range done {
		for _, f := range r.refutable(done[i]) {
			if ctx.Err() == nil {
				done[i].Repeats = append(done[i].Repeats, r.repeat(ctx, l, done[i].Step, f, log))
			}
		}
	}
	if l.After != "" {
		done = append(done, r.step(context.WithoutCancel(ctx), l, l.After, log))
	}
	return done
}

// repeat runs a failed test of a step alone.
func (r *run) repeat(ctx context.Context, l lane, step string, f events.Failure, log io.Writer) repeat {
	again := repeat{Failure: f}
	r.print(l.Name, fmt.Sprintf("repeat %s of %s", again, step))
	ran := false
	var printed []string
	reader := events.Reader{
		Print: func(line string) {
			r.print(l.Name, line)
			printed = append(printed, line)
		},
		Passed: func(path, name string, output []string) {
			if path == f.Package && (name == f.Again || f.Again == "") {
				ran = true
			}
			again.Output = output
		},
	}
	// A repetition takes its lab down itself, so that the next repetition finds no lab.
	cmd := r.Command(repeatTarget, "STEP="+step, "PACKAGE="+f.Package, "TEST="+pattern(f.Again), "KEEP_LAB=")
	again.Took, again.Err = r.perform(ctx, cmd, false, &reader, log)
	if again.Err == nil && !ran {
		again.Err = errors.New("it ran no such test")
	}
	if again.Err != nil || f.Again == "" {
		again.Output = printed
	}
	r.print(l.Name, fmt.Sprintf("%s %s after %s", verdict(again.Err), again, again.Took.Round(time.Second)))
	return again
}

// pattern returns the expression for `go test -run` that matches one test alone, or all of a
// package for "".
func pattern(test string) string {
	if test == "" {
		return "."
	}
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
