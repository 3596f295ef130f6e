// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// longest is the number of words of a design record, by spaces.
const longest = 1000

// older are records from before the limit, with the number of hundreds of words that they may
// have. They may become shorter, and then this number does.
var older = map[int]int{
	10: 12, 12: 14, 13: 11, 14: 11, 23: 15, 61: 12, 62: 11, 81: 11, 82: 36, 92: 17, 94: 12, 95: 31, 101: 15, 110: 15, 111: 11,
	113: 11, 114: 13, 115: 15, 116: 16, 119: 13, 121: 26, 122: 31, 123: 25, 124: 18, 130: 23,
}

var dated = regexp.MustCompile(`^\W*Date\W+\d{4}-\d{2}-\d{2}\b(?s:.*)\bStatus\W+(?i:proposed|accepted|superseded)\b`)

// hasForm reports whether a record is from after the form of docs/design/README.md.
func hasForm(number int) bool {
	return number >= 157 || number >= 140 && number <= 149 || number == 64 || number == 65
}

func TestRecords_Each_FormAndLength(t *testing.T) {
	records, err := filepath.Glob(filepath.Join(root, "docs/design/[0-9]*.md"))
	if err != nil || len(records) < 80 {
		t.Fatalf("found %d records: %v", len(records), err)
	}
	for _, file := range records {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		number, err := strconv.Atoi(filepath.Base(file)[:3])
		if err != nil {
			t.Errorf("%s does not begin with a number of three digits", file)
			continue
		}
		for _, problem := range slices.Concat(tooLong(number, string(text)), malformed(number, string(text))) {
			t.Errorf("docs/design/%s: %s (see docs/design/README.md)", filepath.Base(file), problem)
		}
	}
}

// tooLong returns what is wrong with the length of a record.
func tooLong(number int, text string) []string {
	words := len(strings.Fields(text))
	hundreds, exempt := older[number]
	switch {
	case !exempt && words > longest:
		return []string{fmt.Sprintf("has %d words, want %d at most: split it by topic, and move logs of attempts to docs/design/appendix", words, longest)}
	case exempt && words > (hundreds+1)*100: // room for other words of the same content
		return []string{fmt.Sprintf("has %d words, and had at most %d: write a new record instead", words, hundreds*100)}
	case exempt && words <= (hundreds-3)*100:
		return []string{fmt.Sprintf("has %d words: correct its number in the list of older records", words)}
	}
	return nil
}

// malformed returns what a record lacks of the form.
func malformed(number int, text string) (problems []string) {
	if !hasForm(number) {
		return nil
	}
	lines := strings.Split(text, "\n")
	if len(lines) < 3 || !strings.HasPrefix(lines[0], fmt.Sprintf("# %03d ", number)) || !dated.MatchString(strings.Join(lines[2:min(6, len(lines))], "\n")) {
		problems = append(problems, `does not begin with "# NNN Title" and, after an empty line, "Date: YYYY-MM-DD. Status: accepted."`)
	}
	var sections []string
	for _, line := range lines {
		if section, ok := strings.CutPrefix(line, "## "); ok {
			if section != "Alternatives" { // may stand apart from the decision
				sections = append(sections, section)
			}
		}
	}
	if want := []string{"Context", "Decision", "Consequences"}; !slices.Equal(sections, want) {
		problems = append(problems, fmt.Sprintf("has the sections %q, want %q", sections, want))
	}
	return problems
}

func TestRecord_WrongForm_Refused(t *testing.T) {
	const good = "# 157 Title\n\nDate: 2026-11-30. Status: accepted.\n\n## Context\nA\n\n## Decision\nB\n\n## Consequences\nC\n"
	for name, c := range map[string]struct {
		number int
		text   string
		wrong  int
	}{
		"a good one":             {157, good, 0},
		"one of before the form": {1, "# 001 Title\n\n**Problem.** A\n", 0},
		"without a date":         {157, strings.Replace(good, "Date: 2026-11-30. ", "", 1), 1},
		"without a status":       {157, strings.Replace(good, " Status: accepted.", "", 1), 1},
		"with another number":    {158, good, 1},
		"without consequences":   {157, strings.Replace(good, "## Consequences\n", "", 1), 1},
		"too long":               {157, good + strings.Repeat("word ", longest), 1},
		"longer than it was":     {61, strings.Repeat("word ", 1301), 1},
		"shorter than it was":    {61, strings.Repeat("word ", 900), 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := slices.Concat(tooLong(c.number, c.text), malformed(c.number, c.text)); len(got) != c.wrong {
				t.Errorf("got %q, want %d problems", got, c.wrong)
			}
		})
	}
}
