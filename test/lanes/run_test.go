// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/waits"
)

// newRun returns lanes whose steps are scripts of a shell in a folder.
func newRun(t *testing.T, dir string, scripts map[string]string, lanes ...lane) (*run, *strings.Builder) {
	t.Helper()
	out := &strings.Builder{}
	return &run{
		Lanes: lanes, Out: out, Dir: filepath.Join(dir, "logs"),
		Command: func(step string, variables ...string) *exec.Cmd {
			cmd := exec.Command("sh", "-c", scripts[step])
			cmd.Dir, cmd.Env = dir, append(os.Environ(), variables...)
			return cmd
		},
	}, out
}

func TestRun_StepFails_OthersRunAndRunFails(t *testing.T) {
	dir := t.TempDir()
	r, out := newRun(t, dir, map[string]string{
		"breaks": "echo broken; exit 3", "goes-on": "echo further", "beside": `echo '{"Action":"pass","Package":"p","Test":"TestSlow","Elapsed":61.5}'`,
		"tidy": "touch tidied",
	}, lane{Name: "one", Steps: []string{"breaks", "goes-on"}, After: "tidy"}, lane{Name: "two", Steps: []string{"beside"}, Low: true})
	if r.do(t.Context()) {
		t.Error("the run passed although a step failed")
	}
	for _, want := range []string{"one     | broken\n", "one     | further\n", "FAILED: exit status 3", "1:01.5", "TestSlow"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "tidied")); err != nil {
		t.Errorf("what ends a lane in any case did not run: %v", err)
	}
	if log, err := os.ReadFile(filepath.Join(dir, "logs", "two.log")); err != nil || !strings.Contains(string(log), "TestSlow") {
		t.Errorf("the log of a lane: %q, %v", log, err)
	}
}

func TestRun_Failures_AtOutputEnd(t *testing.T) {
	failed := `echo '{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA"}'; ` +
		`echo '{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: wrong"}'; ` +
		`echo '{"Action":"fail","Package":"p","Test":"TestA","Elapsed":0}'; ` +
		`echo '{"Action":"output","Package":"q","Test":"TestB","Output":"panic: nil"}'; ` +
		`echo '{"Action":"fail","Package":"q","Elapsed":0}'; exit 1`
	r, out := newRun(t, t.TempDir(), map[string]string{
		"tests": failed, "compiler": "for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done; exit 2", "fine": "echo passed",
	}, lane{Name: "one", Steps: []string{"tests", "compiler", "fine"}})
	r.do(t.Context())
	_, end, _ := strings.Cut(out.String(), "slowest tests")
	for text, want := range map[string]bool{
		"FAILED tests: exit status 1": true, "  p TestA\n        a_test.go:1: wrong\n": true, "=== RUN": false,
		"  q TestB\n    panic: nil\n":    true,
		"FAILED compiler: exit status 2": true, "    line 2\n": true, "line 9\n": true, "line 1\n": false, "passed": false,
	} {
		if strings.Contains(end, text) != want {
			t.Errorf("the end holds %q: %t, want %t\n%s", text, !want, want, end)
		}
	}
}

// TestRun_LongLog_TestMessageShown: a test that prints the log of a process at its end failed for a
// reason that it had said before.
func TestRun_LongLog_TestMessageShown(t *testing.T) {
	long := strings.Repeat("x", 2*shownBytes)
	lines := []string{"=== RUN   TestA", "    a_test.go:1: wrong " + long, "    a_test.go:2: the log:"}
	for range 3 * shownLines {
		lines = append(lines, "        level=INFO")
	}
	var out strings.Builder
	lines = append(lines, "--- FAIL: TestA")
	for range 3 * shownLines {
		lines = append(lines, "    --- PASS: TestA/sub (0.00s)")
	}
	writeLines(&out, excerpt(lines, shownLines))
	for text, want := range map[string]bool{"a_test.go:1: wrong x": true, "a_test.go:2: the log:": true, "--- FAIL": true, "--- PASS": false, long: false, "=== RUN": false} {
		if strings.Contains(out.String(), text) != want {
			t.Errorf("the end holds %.30q: %t, want %t\n%s", text, !want, want, out.String())
		}
	}
	if got, want := strings.Count(out.String(), "\n"), shownLines+2; got != want {
		t.Errorf("%d lines, want %d:\n%s", got, want, out.String())
	}
}

func TestRun_AllPass_Passes(t *testing.T) {
	r, out := newRun(t, t.TempDir(), map[string]string{"fine": "true"}, lane{Name: "one", Steps: []string{"fine", "fine"}})
	if !r.do(t.Context()) {
		t.Errorf("the run failed:\n%s", out)
	}
}

func TestLane_Wait_StepMayFail(t *testing.T) {
	dir := t.TempDir()
	r, out := newRun(t, dir, map[string]string{
		"fails": "touch first; exit 1", "waits": "test -e second", "second": "test -e first && touch second", "further": "test -e second && ! test -e third", "third": "touch third",
	}, lane{Name: "one", Steps: []string{"fails", "second"}},
		lane{Name: "two", Steps: []string{"waits", "further"}, Wait: "second"},
		lane{Name: "three", Steps: []string{"third"}, Wait: "further"})
	r.do(t.Context())
	for _, step := range []string{"second", "waits", "further", "third"} {
		if !strings.Contains(out.String(), "ok     "+step) {
			t.Errorf("%s came too early:\n%s", step, out)
		}
	}
}

// cancelOnce cancels a context once a file exists.
func cancelOnce(ctx context.Context, cancel context.CancelFunc, file string) {
	for ctx.Err() == nil {
		if _, err := os.Stat(file); err == nil {
			cancel()
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestRun_Interrupted_ProcessesEndAndTidied(t *testing.T) {
	dir := t.TempDir()
	r, out := newRun(t, dir, map[string]string{
		// The shell waits for a child, which has to hear of it as well.
		"long": "(trap 'touch told; exit' TERM; touch begun; while :; do read -t 1 x < /dev/zero; done) & wait; wait", "never": "touch wrong", "tidy": "touch tidied",
	}, lane{Name: "one", Steps: []string{"long", "never"}, After: "tidy"}, lane{Name: "two", Steps: []string{"never"}, Wait: "never"})
	ctx, cancel := context.WithCancel(t.Context())
	go cancelOnce(ctx, cancel, filepath.Join(dir, "begun"))
	began := time.Now()
	if r.do(ctx) {
		t.Errorf("an interrupted run passed:\n%s", out)
	}
	if took := time.Since(began); took > grace/2 {
		t.Errorf("it took %s", took)
	}
	for name, want := range map[string]bool{"told": true, "tidied": true, "wrong": false} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: exists %t, want %t\n%s", name, err == nil, want, out)
		}
	}
}

func TestParse_Arguments_LanesRead(t *testing.T) {
	lanes, err := parse([]string{"a=x,y", "b=z"}, []string{"a"}, map[string]string{"b": "down"}, map[string]string{"b": "y"})
	if err != nil || len(lanes) != 2 || !lanes[0].Low || lanes[1].Low || lanes[1].After != "down" || len(lanes[0].Steps) != 2 || lanes[1].Wait != "y" {
		t.Errorf("%+v, %v", lanes, err)
	}
	for _, wrong := range []struct {
		arguments, low []string
		after, wait    map[string]string
	}{
		{arguments: []string{"a"}},
		{arguments: []string{"a="}},
		{arguments: []string{"a=x"}, low: []string{"b"}},
		{arguments: []string{"a=x"}, after: map[string]string{"b": "x"}},
		{arguments: []string{"a=x"}, wait: map[string]string{"b": "x"}},
		{arguments: []string{"a=x", "b=y"}, wait: map[string]string{"b": "z"}},
		{arguments: []string{"a=x", "b=y"}, wait: map[string]string{"a": "y"}}, // b may wait for a
		{arguments: []string{"a=x", "b=y"}, wait: map[string]string{"b": "y"}},
	} {
		if _, err := parse(wrong.arguments, wrong.low, wrong.after, wrong.wait); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
	}
}

// TestSteps_MachineFactor_Passed has the measured factor, and one that a person sets.
func TestSteps_MachineFactor_Passed(t *testing.T) {
	for name, set := range map[string]string{"measured": "", "set": "4"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(waits.Variable, set) // the test restores it
			if set == "" {
				os.Unsetenv(waits.Variable)
			}
			var printed strings.Builder
			if err := bePatient(&printed); err != nil {
				t.Fatal(err)
			}
			r, out := newRun(t, t.TempDir(), map[string]string{"step": "echo factor-$" + waits.Variable}, lane{Name: "one", Steps: []string{"step"}})
			r.do(t.Context())
			if want := fmt.Sprintf("factor-%d\n", waits.Factor()); !strings.Contains(out.String(), want) || set != "" && want != "factor-"+set+"\n" {
				t.Errorf("the step lacks %q:\n%s", want, out)
			}
			if want := fmt.Sprintf("times %d,", waits.Factor()); !strings.Contains(printed.String(), want) {
				t.Errorf("the run does not say %q: %s", want, &printed)
			}
		})
	}
}
