// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// aliothctl status and the metrics show the names only; the table explains them.
func TestDropReasons_EachReason_Documented(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/reference/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(docs), "`alioth_filter_dropped_packets_total`")
	if !found {
		t.Fatal("docs/reference/reasons.md does not name the metric of these reasons")
	}
	for _, reason := range Reasons() {
		if !regexp.MustCompile(`(?m)^\|[^|]*\b` + reason + `\b[^|]*\|`).MatchString(table) {
			t.Errorf("docs/reference/reasons.md has no row for %s below its metric", reason)
		}
	}
}
