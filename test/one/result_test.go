// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"
)

func TestResult_NothingTested_NoSuccess(t *testing.T) {
	event := func(action, name, output string) string {
		return `{"Action":"` + action + `","Package":"p","Test":"` + name + `","Output":"` + output + `"}` + "\n"
	}
	begun := event("output", "TestA", `=== RUN   TestA\n`)
	reason := event("output", "TestA", `    a_test.go:3: needs a lab: set ALIOTH_E2E=1\n`)
	for name, tt := range map[string]struct{ test, events, err string }{
		"a test that passed":               {"TestA", begun + event("pass", "TestA", ""), ""},
		"a subtest that passed":            {"TestA/of two", event("pass", "TestA/of_two", "") + event("pass", "TestA", ""), ""},
		"a skipped test":                   {"TestA", begun + reason + event("skip", "TestA", ""), "skipped: needs a lab: set ALIOTH_E2E=1"},
		"a skipped test above the subtest": {"TestA/sub", begun + reason + event("skip", "TestA", ""), "skipped: needs a lab"},
		"a skipped subtest":                {"TestA/sub", reason + event("skip", "TestA/sub", "") + event("pass", "TestA", ""), "skipped: needs a lab"},
		"another subtest was skipped":      {"TestA", reason + event("skip", "TestA/sub", "") + event("pass", "TestA", ""), ""},
		"no subtest of the name":           {"TestA/sub", begun + event("pass", "TestA", ""), "no test of this name ran"},
		"no test at all":                   {"TestA", "", "no test of this name ran"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newResult(io.Discard, tt.test)
			if _, err := io.WriteString(&r.lines, tt.events); err != nil {
				t.Fatal(err)
			}
			r.close()
			if err := r.err(); (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func TestResult_Output_PrintedUnchanged(t *testing.T) {
	var out strings.Builder
	r := newResult(&out, "TestA")
	for _, line := range []string{
		"make says something",
		`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: broken\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}`,
		`{"Action":"fail","Package":"p"}`,
	} {
		r.reader.Line(line)
	}
	r.close()
	if want := "make says something\n=== RUN   TestA\n    a_test.go:3: broken\nFAIL\tp\t0.1s\n"; out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}
