// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

const (
	passes = `{"Action":"pass","Package":"p","Test":"TestA/sub"}
{"Action":"pass","Package":"p","Test":"TestA"}
`
	skips = `{"Action":"output","Package":"p","Test":"TestRoot","Output":"    a_test.go:3: needs root, to make cgroups\n"}
{"Action":"skip","Package":"p","Test":"TestRoot"}
{"Action":"output","Package":"p","Test":"TestSpin","Output":"    a_test.go:4: spin is not installed\n"}
{"Action":"skip","Package":"p","Test":"TestSpin"}
`
	panics = `{"Action":"output","Package":"p","Output":"panic: broken\n"}
{"Action":"output","Package":"p","Output":"\t/a/a.go:7 +0x1\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`
	ends = `{"Action":"output","Package":"p/none","Output":"\tp/none\t\tcoverage: 0.0% of statements\n"}
{"Action":"pass","Package":"p/none"}
{"Action":"output","Package":"p","Output":"ok  \tp\t(cached)\n"}
{"Action":"pass","Package":"p"}
`
	fails = `{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:9: broken\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}
`
	breaks = `{"ImportPath":"p","Action":"build-output","Output":"a.go:1: undefined: x\n"}
{"ImportPath":"p","Action":"build-output","Output":"\thave (int)\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p"}
`
)

func TestRun_Events_EndsWithLeftOut(t *testing.T) {
	for name, tt := range map[string]struct {
		events, want, err string
	}{
		"passed": {passes + skips + ends, "1 tests passed, 0 failed\nleft out, for make test:\n     1 need root\nskipped for other reasons:\n     1 spin is not installed\n", ""},
		"a test fails": {
			passes + fails,
			"    a_test.go:9: broken\nFAILED p TestB\n1 tests passed, 1 failed\n", "1 tests or packages failed",
		},
		"a package can't be built": {
			passes + ends + strings.ReplaceAll(breaks, `"p`, `"q`),
			"a.go:1: undefined: x\n\thave (int)\nFAIL\tp [build failed]\nFAILED q \n1 tests passed, 1 failed\n", "1 tests or packages failed",
		},
		"a process panics": {
			passes + panics,
			"panic: broken\n\t/a/a.go:7 +0x1\nFAIL\tp\t0.1s\nFAILED p \n1 tests passed, 1 failed\n", "1 tests or packages failed",
		},
		"a run that ends in the middle": {`{"Action":"output","Package":"p","Test":"TestB","Output":"begun\n"}`, "--- DID NOT END: TestB\nbegun\nFAILED p \nFAILED p TestB\n0 tests passed, 2 failed\n", "2 tests or packages failed"},
		"nothing ran":                   {"", "0 tests passed, 0 failed\n", "no test ran"},
		"everything is left out":        {skips + ends, "0 tests passed, 0 failed", "no test ran"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := summarize(strings.NewReader(tt.events), &out)
			if text := out.String(); !strings.HasPrefix(text, tt.want) {
				t.Errorf("printed\n%s\nwant\n%s", text, tt.want)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}
