// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package texts_test

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/api/trust/reads"
	"github.com/alioth-net/alioth/test/texts"
)

// TestProduct_UnboundedTextOfOthers_Absent: the author of the text of an object, an annotation or a
// request gets at most 256 bytes of it, in quotes, into an error, a condition, an event or a log of
// the product. Mend a finding by quote.Text, quote.Name or quote.Error, or by a bound where the text
// is decoded, with its test.
func TestProduct_UnboundedTextOfOthers_Absent(t *testing.T) {
	program, err := reads.Load(t.Context(), "../..", module, "./cmd/alioth-operator", "./cmd/alioth-cnid")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range texts.Of(program, rules) {
		t.Errorf("%s: %s of %s (%s): %s", f.Place, f.Verb, f.Text, f.Type, strings.Join(f.Way, " < "))
	}
}
