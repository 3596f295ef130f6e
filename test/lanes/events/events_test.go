// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package events_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/lanes/events"
)

// read returns the output of a reader for a text, and the tests that it counts.
func read(text string) (printed []string, tests []events.Test) {
	r := events.Reader{Print: func(line string) { printed = append(printed, line) }}
	lines := events.Lines{Take: r.Line}
	for i := range text { // in the smallest pieces that there are
		_, _ = lines.Write([]byte{text[i]})
	}
	lines.Flush()
	r.Close()
	return printed, r.Tests
}

func TestReader_Events_OnlyNeededPrinted(t *testing.T) {
	for name, tt := range map[string]struct {
		events  []string
		printed []string
		tests   []events.Test
	}{
		"a line of another program": {
			[]string{`go: downloading x`, `{"not": "an event"}`},
			[]string{`go: downloading x`, `{"not": "an event"}`},
			nil,
		},
		"a test that passes is silent, and counts without its subtests": {
			[]string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: chatter\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/sub","Elapsed":1}`,
				`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}`,
				`{"Action":"output","Package":"p","Output":"PASS\n"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t1.6s\n"}`,
				`{"Action":"pass","Package":"p","Elapsed":1.6}`,
			},
			[]string{"ok  \tp\t1.6s"},
			[]events.Test{{Package: "p", Name: "TestA", Took: 1500 * time.Millisecond}},
		},
		"a result that was known is no test that has run": {
			[]string{
				`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t(cached)\n"}`,
				`{"Action":"pass","Package":"p","Elapsed":0}`,
			},
			[]string{"ok  \tp\t(cached)"},
			nil,
		},
		"a test that fails prints all that it and its subtests said": {
			[]string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestB","Output":"of another\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA/sub","Output":"    a_test.go:1: wrong\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA/sub","Elapsed":0}`,
				`{"Action":"fail","Package":"p","Test":"TestA","Elapsed":0}`,
				`{"Action":"pass","Package":"p","Test":"TestB","Elapsed":0}`,
				`{"Action":"fail","Package":"p","Elapsed":0}`,
			},
			[]string{"=== RUN   TestA", "    a_test.go:1: wrong"},
			[]events.Test{{Package: "p", Name: "TestA"}, {Package: "p", Name: "TestB"}},
		},
		"a skipped test says why": {
			[]string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: runs in: make soak\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}`,
				`{"Action":"skip","Package":"p","Test":"TestA","Elapsed":0}`,
				`{"Action":"pass","Package":"p","Elapsed":0}`,
			},
			[]string{"skipped TestA: runs in: make soak"},
			nil,
		},
		"a process that ended in the middle shows whose tests it ran": {
			[]string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: nil\n"}`,
				`{"Action":"fail","Package":"p","Elapsed":0}`,
			},
			[]string{"--- DID NOT END: TestA", "panic: nil"},
			nil,
		},
		"a stream that ends in the middle does so as well": {
			[]string{`{"Action":"output","Package":"p","Test":"TestA","Output":"begun\n"}`},
			[]string{"--- DID NOT END: TestA", "begun"},
			nil,
		},
		"what the compiler says is shown": {
			[]string{
				`{"ImportPath":"p","Action":"build-output","Output":"a.go:1:1: syntax error\n"}`,
				`{"ImportPath":"p","Action":"build-fail"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}`,
				`{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}`,
			},
			[]string{"a.go:1:1: syntax error", "FAIL\tp [build failed]"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			printed, tests := read(strings.Join(tt.events, "\n"))
			if diff := cmp.Diff(tt.printed, printed); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.tests, tests); diff != "" {
				t.Errorf("tests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReader_Failures_SmallestPartRepeated: one subtest that failed is repeated alone, unless the
// test itself can have failed as well.
func TestReader_Failures_SmallestPartRepeated(t *testing.T) {
	printed := func(test string) string {
		return `{"Action":"output","Package":"p","Test":"` + test + `","Output":"    a_test.go:1: text\n"}`
	}
	fail := func(test string) string { return `{"Action":"fail","Package":"p","Test":"` + test + `"}` }
	for name, tt := range map[string]struct {
		events []string
		again  string
	}{
		"a test":                               {[]string{printed("A"), fail("A")}, "A"},
		"one subtest":                          {[]string{printed("A/x"), fail("A/x"), fail("A")}, "A/x"},
		"the deepest subtest":                  {[]string{printed("A/x/y"), fail("A/x/y"), fail("A/x"), fail("A")}, "A/x/y"},
		"two subtests":                         {[]string{fail("A/x"), fail("A/y"), fail("A")}, "A"},
		"a subtest, and another of one":        {[]string{fail("A/x/y"), fail("A/x"), fail("A/z"), fail("A")}, "A"},
		"a subtest whose name begins alike":    {[]string{fail("A/x"), fail("A/x y"), fail("A")}, "A"},
		"a test that said something itself":    {[]string{printed("A/x"), printed("A"), fail("A/x"), fail("A")}, "A"},
		"a subtest above that said something":  {[]string{printed("A/x"), fail("A/x/y"), fail("A/x"), fail("A")}, "A"},
		"a subtest beside that said something": {[]string{printed("A/y"), fail("A/x"), fail("A")}, "A/x"},
		"a test beside that failed":            {[]string{fail("B/x"), printed("AB"), fail("A/x"), fail("A")}, "A/x"},
	} {
		t.Run(name, func(t *testing.T) {
			r := events.Reader{Print: func(string) {}}
			for _, line := range tt.events {
				r.Line(line)
			}
			if len(r.Failures) != 1 || r.Failures[0].Again != tt.again || r.Failures[0].Final {
				t.Errorf("%+v, want %s again", r.Failures, tt.again)
			}
		})
	}
}

func TestReader_SkippedTests_Reported(t *testing.T) {
	var printed, skipped []string
	r := events.Reader{
		Print:   func(line string) { printed = append(printed, line) },
		Skipped: func(path, name, reason string) { skipped = append(skipped, path+" "+name+": "+reason) },
	}
	for _, line := range []string{
		`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: needs root, to make cgroups\n"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}`,
		`{"Action":"skip","Package":"p","Test":"TestA"}`,
		`{"Action":"pass","Package":"p"}`,
	} {
		r.Line(line)
	}
	if want := []string{"p TestA: needs root, to make cgroups"}; !cmp.Equal(skipped, want) || len(printed) > 0 {
		t.Errorf("skipped %q, printed %q, want %q and nothing", skipped, printed, want)
	}
}
