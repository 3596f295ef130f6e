// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadLines_OtherOutput_LinesFound(t *testing.T) {
	want := []Line{{What: "ADD", Path: "Alioth", Values: Series{1.5, 2}}, {What: "DEL", Path: "other"}}
	var out strings.Builder
	out.WriteString("=== RUN TestIt\n    it_test.go:7: figures: none\nhalf a line")
	for _, line := range want {
		if err := line.Print(&out); err != nil {
			t.Fatal(err)
		}
		out.WriteString("--- PASS\n")
	}
	got, err := ReadLines(strings.NewReader(out.String()))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestReadLines_BrokenLine_Error(t *testing.T) {
	for _, text := range []string{"figures: {", "figures: " + strings.Repeat("x", longestLine)} {
		if _, err := ReadLines(strings.NewReader(text)); err == nil {
			t.Errorf("%.20q is read", text)
		}
	}
}
