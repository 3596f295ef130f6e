// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	nmtarget "github.com/alioth-net/alioth/cnid/nmstate/target"
)

const migration = "migrate/nmstate.md"

var quoted = regexp.MustCompile("`([^`]+)`")

// rowsOf returns the rows of the table below a heading of the guide: the first column, and the
// words in quotes of the second one.
func rowsOf(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	_, text, found := strings.Cut(readGuide(t, migration), "\n### "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n#")
	for line := range strings.SplitSeq(text, "\n") {
		columns := strings.Split(line, "|")
		const first, second, least = 1, 2, 4
		if len(columns) < least || !strings.Contains(columns[second], "`") {
			continue
		}
		row := []string{strings.TrimSpace(columns[first])}
		for _, word := range quoted.FindAllStringSubmatch(columns[second], -1) {
			row = append(row, word[1])
		}
		rows = append(rows, row)
	}
	if !found || len(rows) == 0 {
		t.Fatalf("%s has no table %q", migration, heading)
	}
	return rows
}

func TestInterfaceTypes_DocumentedTable_MatchesResolver(t *testing.T) {
	current, _ := currentOfGuides(t)
	for _, row := range rowsOf(t, "Types") {
		for _, kind := range row[1:] {
			desired := &document.State{Interfaces: []document.Interface{{Name: "x", Type: kind, State: document.Up}}}
			_, err := nmtarget.Resolve(desired, current)
			refused := err != nil && strings.Contains(err.Error(), "want one of")
			if refused != (row[0] == "refused") || compare.Virtual(kind) != (row[0] == "made and changed") {
				t.Errorf("%s is in the row %q: %v", kind, row[0], err)
			}
		}
	}
}
