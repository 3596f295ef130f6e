// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/lanes/events"
)

const someEvents = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"p","Test":"TestGood/rare","Output":"    x_test.go:3: missing feature: igb\n"}
{"Action":"skip","Package":"p","Test":"TestGood/rare"}
{"Action":"pass","Package":"p","Test":"TestGood","Elapsed":0.1}
{"Action":"run","Package":"p","Test":"TestBad"}
{"Action":"run","Package":"p","Test":"TestBad/part"}
{"Action":"output","Package":"p","Test":"TestBad/part","Output":"    x_test.go:7: broken\n"}
{"Action":"fail","Package":"p","Test":"TestBad/part"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestNot","Output":"=== RUN   TestNot\n"}
{"Action":"output","Package":"p","Test":"TestNot","Output":"    env_test.go:93: missing feature: netkit (Linux 6.7)\n"}
{"Action":"output","Package":"p","Test":"TestNot","Output":"--- SKIP: TestNot (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestNot"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}
`

func readReport(t *testing.T, events string) Report {
	t.Helper()
	report, err := readEvents(strings.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	report.Package = "p"
	return report
}

func TestReport_Events_EveryTestTold(t *testing.T) {
	report := readReport(t, someEvents)
	report.Failure = "exit status 1"
	var total Total
	total.add(report)
	if diff := cmp.Diff(Total{Passed: 1, Failed: 1, Skipped: 2}, total); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	var text strings.Builder
	report.write(&text, "6.1")
	report.writeFailures(&text)
	for _, want := range []string{"FAIL  linux 6.1", "1 passed, 1 failed, 2 skipped", "skipped TestGood/rare: missing feature: igb\n", "x_test.go:7: broken", "skipped TestNot: missing feature: netkit (Linux 6.7)\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "=== RUN   TestGood") {
		t.Errorf("what passed is printed:\n%s", &text)
	}
}

// The table of slow tests and the list of failures are made of events, whose package has the
// kernel's name.
func TestReport_Events_TimesAndFailures(t *testing.T) {
	report := readReport(t, `{"Action":"pass","Test":"TestSlow","Elapsed":61.5}
{"Action":"skip","Test":"TestNot"}
{"Action":"output","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Test":"TestBad","Output":"    x_test.go:7: broken\n"}
{"Action":"fail","Test":"TestBad","Elapsed":0.5}
`)
	var text strings.Builder
	if err := report.writeEvents(&text, "6.1"); err != nil {
		t.Fatal(err)
	}
	var printed []string
	reader := events.Reader{Print: func(line string) { printed = append(printed, line) }}
	for line := range strings.Lines(text.String()) {
		reader.Line(strings.TrimSpace(line))
	}
	want := []events.Test{
		{Package: "linux 6.1 p", Name: "TestSlow", Took: 61500 * time.Millisecond},
		{Package: "linux 6.1 p", Name: "TestBad", Took: 500 * time.Millisecond},
	}
	if diff := cmp.Diff(want, reader.Tests); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	output := []string{"=== RUN   TestBad", "    x_test.go:7: broken"}
	if diff := cmp.Diff([]events.Failure{{Package: "linux 6.1 p", Name: "TestBad", Output: output, Again: "TestBad", Final: true}}, reader.Failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(output, printed); diff != "" {
		t.Errorf("printed, or not an event (-want +got):\n%s", diff)
	}
}

// A process that dies, or runs nothing, must not look like success.
func TestReport_ProcessDiesOrEmpty_Fails(t *testing.T) {
	const panicked = `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: oh\n"}` + "\n"
	for name, report := range map[string]Report{
		"nothing was run":                   {},
		"the process was killed in a test":  {Failure: "signal: killed"},
		"a test skipped what is there":      {Complete: true, Tests: []Result{{Name: "TestA", Outcome: passed}, {Name: "TestB", Outcome: skipped}}},
		"the process failed after its last": {Failure: "exit status 1", Tests: []Result{{Name: "TestA", Outcome: passed}}},
	} {
		var total Total
		total.add(report)
		if total.Failed != 1 {
			t.Errorf("%s: counted %+v, want a failure", name, total)
		}
	}
	report := readReport(t, panicked)
	report.Failure = "exit status 2"
	var text strings.Builder
	report.write(&text, "6.1")
	if !strings.Contains(text.String(), "panic: oh") || !strings.Contains(text.String(), "exit status 2") {
		t.Errorf("the panic is not printed:\n%s", &text)
	}
}

func TestSkipReason_Output_ReasonRead(t *testing.T) {
	for output, want := range map[string]string{
		"=== RUN   TestA\n--- SKIP: TestA (0.00s)\n":                                         "no reason given",
		"    a_test.go:9: needs CAP_SYS_ADMIN, to mount\n--- SKIP: TestA (0.00s)\n":          "needs CAP_SYS_ADMIN, to mount",
		"    a_test.go:9: missing feature: TCX (Linux 6.6)\n    --- SKIP: TestA/b (0.00s)\n": "missing feature: TCX (Linux 6.6)",
	} {
		if got := skipReason(output); got != want {
			t.Errorf("of %q got %q, want %q", output, got, want)
		}
	}
}
