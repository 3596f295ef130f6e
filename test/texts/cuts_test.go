// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package texts_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/api/trust/reads"
	"github.com/alioth-net/alioth/test/texts"
)

// plain are files that cut texts without characters of several bytes, one place in each.
var plain = map[string]string{
	"api/annotations/position.go":          "lines that are counted, and not shown",
	"api/nmstate/v1beta1/names.go":         "names of objects",
	"api/version/version.go":               "a hash",
	"cnid/forward/hostlink/filter.go":      "a hash",
	"cnid/forward/hostlink/links/names.go": "a hash",
	"cnid/forward/netfilter/apply.go":      "a hash",
	"cnid/forward/netfilter/frontends.go":  "a hash",
	"cnid/nmstate/kernel/lacks.go":         "random letters",
	"cnid/cluster/report/events.go":        "names of objects",
}

// TestProduct_TextCutWithinCharacter_Absent: the API server refuses an object with a part of a
// character, each time again. Mend a finding by quote.Cut.
func TestProduct_TextCutWithinCharacter_Absent(t *testing.T) {
	program, err := reads.Load(t.Context(), "../..", module, "./cmd/...")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, place := range texts.Cuts(program, rules.Cut) {
		file, _, _ := strings.Cut(place, ":")
		if plain[file] == "" || seen[file] {
			t.Errorf("%s: a text is cut after a number of bytes", place)
		}
		seen[file] = true
	}
	for file := range plain {
		if !seen[file] {
			t.Errorf("%s cuts no text: remove its line", file)
		}
	}
}

// TestCuts_Sample_EachFound runs over a program with one example of each.
func TestCuts_Sample_EachFound(t *testing.T) {
	const sample = "testdata/cuts/cuts.go"
	program, err := reads.Load(t.Context(), ".", module, "./testdata/cuts")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for at, line := range strings.Split(string(source), "\n") {
		if strings.HasSuffix(line, "// found") {
			want = append(want, fmt.Sprintf("test/texts/%s:%d", sample, at+1))
		}
	}
	if diff := cmp.Diff(want, texts.Cuts(program, rules.Cut)); diff != "" {
		t.Errorf("places (-want +found):\n%s", diff)
	}
}
