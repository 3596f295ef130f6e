// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// failing returns a script that prints the events of a package whose tests fail, as `go test -json`
// does.
func failing(path string, tests ...string) string {
	var script strings.Builder
	for _, test := range tests {
		script.WriteString(output(path, test, "    a_test.go:1: wrong the first time"))
		script.WriteString(event("fail", path, test))
		if above, _, ok := strings.Cut(test, "/"); ok {
			script.WriteString(event("fail", path, above))
		}
	}
	return script.String() + output(path, "", "FAIL") + event("fail", path, "") + "exit 1"
}

// passing returns a script of a passing test.
func passing(path, test string) string {
	return output(path, test, "    a_test.go:1: right the second time") + event("pass", path, test) + event("pass", path, "")
}

func event(action, path, test string) string {
	return fmt.Sprintf("printf '%%s\\n' '{\"Action\":%q,\"Package\":%q,\"Test\":%q}'; ", action, path, test)
}

func output(path, test, text string) string {
	return fmt.Sprintf("printf '%%s\\n' '{\"Action\":\"output\",\"Package\":%q,\"Test\":%q,\"Output\":%q}'; ", path, test, text)
}

// TestRepeat_FailedTest_JudgedByRepetition lists the effects of repetitions on a run.
func TestRepeat_FailedTest_JudgedByRepetition(t *testing.T) {
	unknown := output("p", "TestA", "panic: nil") + event("fail", "p", "TestA") + output("p", "", "FAIL\tp\t0.1s") + event("fail", "p", "") + "exit 1"
	for name, tt := range map[string]struct {
		step, repeat string
		passes       bool
		// repeats are the expressions of the tests that run again. says has texts in the end of the
		// output, silent texts that it lacks.
		repeats []string
		says    []string
		silent  string
	}{
		"a test that passes alone": {
			failing("p", "TestA"), passing("p", "TestA"), true,
			[]string{"^TestA$"},
			[]string{"FLAKY p TestA of tests", "wrong the first time", "right the second time", "FLAKY: 1", "ok\n\nslowest"},
			"FAILED",
		},
		"a test that fails again": {
			failing("p", "TestA"), failing("p", "TestA"), false, []string{"^TestA$"}, []string{"FAILED tests", "repeated alone: p TestA: failed again"}, "FLAKY",
		},
		"one subtest": {
			failing("p", "TestA/odd [name]|$x"), passing("p", "TestA/odd [name]|$x"), true, []string{`^TestA$/^odd \[name\]\|\$x$`}, []string{"FLAKY p TestA/odd [name]|$x"}, "FAILED",
		},
		"two tests": {
			failing("p", "TestA", "TestB"), passing("p", "TestA") + passing("p", "TestB"), true, []string{"^TestA$", "^TestB$"}, []string{"FLAKY p TestA", "FLAKY p TestB"}, "FAILED",
		},
		"three tests": {
			failing("p", "TestA", "TestB", "TestC"), passing("p", "TestA") + passing("p", "TestB") + passing("p", "TestC"), false,
			[]string{"^TestA$", "^TestB$", "^TestC$"},
			[]string{"FLAKY p TestC", "FAILED: 3 tests are flaky"},
			"failed again",
		},
		"more tests than one cause has": {
			failing("p", "A", "B", "C", "D", "E", "F", "G"), passing("p", "A"), false, nil, []string{"FAILED tests"}, "FLAKY",
		},
		"a repetition that runs nothing": {
			failing("p", "TestA"), output("p", "", "testing: warning: no tests to run") + event("pass", "p", ""), false, []string{"^TestA$"}, []string{"it ran no such test"}, "FLAKY",
		},
		"a repetition that runs another test": {
			failing("p", "TestA/sub"), passing("p", "TestA"), false, []string{"^TestA$/^sub$"}, []string{"it ran no such test"}, "FLAKY",
		},
		"a repetition that skips the test": {
			failing("p", "TestA"), event("skip", "p", "TestA") + event("pass", "p", ""), false, []string{"^TestA$"}, []string{"it ran no such test"}, "FLAKY",
		},
		"a repetition whose test passes and whose target fails": {
			failing("p", "TestA"), passing("p", "TestA") + "exit 1", false, []string{"^TestA$"}, []string{"failed again"}, "FLAKY",
		},
		"a package that failed before its tests": {
			event("start", "p", "") + output("p", "", "no server") + event("fail", "p", "") + "exit 1", passing("p", "TestA"), true, []string{"."}, []string{"FLAKY p (all its tests)", "no server"}, "FAILED",
		},
		"a panic, which hides other tests": {unknown, passing("p", "TestA"), false, nil, []string{"FAILED tests"}, "FLAKY"},
		"a test that did not end":          {output("p", "TestA", "begun") + event("fail", "p", "") + "exit 1", passing("p", "TestA"), false, nil, []string{"FAILED tests"}, "FLAKY"},
		"a package that did not end":       {event("start", "q", "") + failing("p", "TestA"), passing("p", "TestA"), false, []string{"^TestA$"}, []string{"FAILED tests"}, ""},
		"a package that is not built":      {output("p", "", "FAIL\tp [build failed]") + event("fail", "p", "") + "exit 1", passing("p", "TestA"), false, nil, []string{"FAILED tests"}, "FLAKY"},
		"a step without tests":             {"echo wrong; exit 1", passing("p", "TestA"), false, nil, []string{"FAILED tests"}, "FLAKY"},
		"go test that was killed": {
			strings.Replace(failing("p", "TestA"), "exit 1", "echo 'make[1]: *** [Makefile:1: tests] Error 137'; exit 2", 1), passing("p", "TestA"), false, nil, []string{"FAILED tests"}, "FLAKY",
		},
		"go test whose tests failed": {
			strings.Replace(failing("p", "TestA"), "exit 1", "echo 'make[1]: *** [Makefile:1: tests] Error 1'; exit 2", 1), passing("p", "TestA"), true, []string{"^TestA$"}, []string{"FLAKY p TestA"}, "FAILED",
		},
		"a step that passed": {passing("p", "TestA"), "exit 1", true, nil, nil, "FLAKY"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r, out := newRun(t, dir, map[string]string{
				"tests": tt.step, "repeat": `echo "$STEP $PACKAGE $TEST KEEP_LAB=$KEEP_LAB" >> repeated; ` + tt.repeat,
			}, lane{Name: "one", Steps: []string{"tests"}})
			r.Repeats = []string{"tests"}
			if passed := r.do(t.Context()); passed != tt.passes {
				t.Errorf("the run passed: %t, want %t", passed, tt.passes)
			}
			_, end, _ := strings.Cut(out.String(), "\nlane ")
			for _, want := range tt.says {
				if !strings.Contains(end, want) {
					t.Errorf("the end lacks %q", want)
				}
			}
			if tt.silent != "" && strings.Contains(end, tt.silent) {
				t.Errorf("the end has %q", tt.silent)
			}
			repeated, want := read(dir, "repeated"), ""
			for _, expression := range tt.repeats {
				want += "tests p " + expression + " KEEP_LAB=\n"
			}
			if repeated != want {
				t.Errorf("repeated:\n%swant:\n%s", repeated, want)
			}
			if t.Failed() {
				t.Logf("the output:\n%s", out)
			}
		})
	}
}

// read returns the text of a file, "" without one.
func read(dir, name string) string {
	text, _ := os.ReadFile(filepath.Join(dir, name))
	return string(text)
}

// TestRepeat_Order_AfterEverythingElse: only the final step of a lane runs after the repetitions,
// once more.
func TestRepeat_Order_AfterEverythingElse(t *testing.T) {
	dir := t.TempDir()
	say := func(what string) string { return "echo " + what + " >> order; " }
	r, out := newRun(t, dir, map[string]string{
		"tests": say("tests") + failing("p", "TestA"), "further": say("further"), "down": say("down"),
		"slow": "until grep -q down order; do :; done; " + say("slow") + failing("q", "TestB"), "lint": say("lint") + "exit 1",
		"repeat": say("'repeat '$STEP") + passing("p", "TestA") + passing("q", "TestB"),
	}, lane{Name: "one", Steps: []string{"tests", "further"}, After: "down"}, lane{Name: "two", Steps: []string{"slow", "lint"}, Low: true})
	r.Repeats = []string{"tests", "slow"}
	if r.do(t.Context()) {
		t.Error("the run passed although a step failed that has no tests")
	}
	if got, want := strings.Join(strings.Fields(read(dir, "order")), " "), "tests further down slow lint repeat tests down repeat slow"; got != want {
		t.Errorf("order: %s\nwant:  %s\n%s", got, want, out)
	}
	for _, log := range []string{"one", "two"} {
		if text := read(dir, "logs/"+log+".log"); !strings.Contains(text, "wrong the first") || !strings.Contains(text, "right the second") {
			t.Errorf("the log of the lane %s lacks one of the two outputs:\n%s", log, text)
		}
	}
}

func TestRepeat_StepNotNamed_NotRepeated(t *testing.T) {
	dir := t.TempDir()
	r, out := newRun(t, dir, map[string]string{"seeds": failing("p", "TestA"), "repeat": "touch repeated; " + passing("p", "TestA")},
		lane{Name: "one", Steps: []string{"seeds"}})
	r.Repeats = []string{"tests"}
	if r.do(t.Context()) {
		t.Errorf("the run passed:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "repeated")); err == nil {
		t.Error("a step was repeated that is not to be")
	}
}

// TestRepeat_InterruptedRun_NothingRepeated interrupts a run after a failure, and another run in
// its first repetition, which has a second test to repeat.
func TestRepeat_InterruptedRun_NothingRepeated(t *testing.T) {
	for name, scripts := range map[string]map[string]string{
		"in a step":       {"tests": failing("p", "TestA"), "long": "touch begun; sleep 600", "repeat": "echo repeated >> repeats"},
		"in a repetition": {"tests": failing("p", "TestA", "TestB"), "long": "true", "repeat": "echo repeated >> repeats; touch begun; sleep 600"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			scripts["down"] = "echo down >> downs"
			r, out := newRun(t, dir, scripts, lane{Name: "one", Steps: []string{"tests", "long"}, After: "down"})
			r.Repeats = []string{"tests"}
			ctx, cancel := context.WithCancel(t.Context())
			go cancelOnce(ctx, cancel, filepath.Join(dir, "begun"))
			if r.do(ctx) {
				t.Errorf("an interrupted run passed:\n%s", out)
			}
			repeats, downs := strings.Count(read(dir, "repeats"), "\n"), strings.Count(read(dir, "downs"), "\n")
			if began := name == "in a repetition"; began && (repeats != 1 || downs != 2) || !began && (repeats != 0 || downs != 1) {
				t.Errorf("%d repetitions, taken down %d times:\n%s", repeats, downs, out)
			}
		})
	}
}
