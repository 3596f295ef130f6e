// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package texts_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/api/trust/reads"
	"github.com/alioth-net/alioth/test/texts"
)

// TestTexts_Sample_EachWayFound runs over a program with one example of each.
func TestTexts_Sample_EachWayFound(t *testing.T) {
	const sample = "test/texts/testdata/sample/sample.go"
	program, err := reads.Load(t.Context(), ".", module, "./testdata/sample")
	if err != nil {
		t.Fatal(err)
	}
	var found, want []string
	for _, f := range texts.Of(program, rules) {
		found = append(found, f.Place)
	}
	source, err := os.ReadFile("testdata/sample/sample.go")
	if err != nil {
		t.Fatal(err)
	}
	for at, line := range strings.Split(string(source), "\n") {
		if strings.HasSuffix(line, "// found") {
			want = append(want, fmt.Sprintf("%s:%d", sample, at+1))
		}
	}
	if diff := cmp.Diff(want, slices.Compact(found)); diff != "" {
		t.Errorf("places (-want +found):\n%s", diff)
	}
}
