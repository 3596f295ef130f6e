// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = `# A page
| kind | what it means |
| --- | --- |
| NotRead | this table has no remedies |

| reason of a pod | what it means | what to do |
| --- | --- | --- |
| One, TwoFold (event) | see [pods.md](../tenants/pods.md#there) and [031](../design/031-repair-by-hand.md) | ask ` + "`kubectl`" + ` |

| condition | reason of a node network | of | what it means | what to do |
| --- | --- | --- | --- | --- |
| ` + "`Ready`" + `, False | ` + "`Three`" + ` | node | [a site](https://example.com) | |

| message of aliothctl | what it means | what to do |
| --- | --- | --- |
| ` + "`this, and that`" + ` | it failed | try |

| CNI code | what it means | what to do |
| --- | --- | --- |
| cni-11 | later | wait |
`

func TestEntries_Tables_RowsWithRemedyRead(t *testing.T) {
	want := []Entry{
		{
			Words: []string{"One", "TwoFold"}, Kind: "reason of a pod", Note: "event",
			Meaning: "see docs/tenants/pods.md and docs/design/031-repair-by-hand.md", Remedy: "ask `kubectl`",
		},
		{Words: []string{"Three"}, Kind: "reason of a node network", Conditions: "Ready, False", Of: "node", Meaning: "a site (https://example.com)"},
		{Words: []string{"this, and that"}, Kind: "message of aliothctl", Meaning: "it failed", Remedy: "try"},
		{Words: []string{"cni-11"}, Kind: "CNI code", Meaning: "later", Remedy: "wait"},
	}
	if diff := cmp.Diff(want, Entries(page, "docs/reference")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFind_WordCodeOrMessage_EntryFound(t *testing.T) {
	entries := Entries(page, "docs/reference")
	for text, want := range map[string][]string{
		"one":                                  {"One"},
		" TwoFold ":                            {"One"},
		"11":                                   {"cni-11"},
		"Error: this, and that":                {"this, and that"},
		"pod waits: TwoFold: no address":       {"One"},
		"pod waits: TwoFolded":                 nil,
		"One is a word of the language":        nil,
		"TwoFold failed with cni-11 on a node": {"One", "cni-11"},
		"Four":                                 nil,
		"":                                     nil,
	} {
		var got []string
		for _, entry := range Find(entries, text) {
			got = append(got, entry.Words[0])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q finds %q, want %q", text, got, want)
		}
	}
}

func TestNear_MisspelledWord_NearestFirst(t *testing.T) {
	entries := []Entry{{Words: []string{"SubnetNotFound", "NetworkNotFound", "SubnetExhausted", "vlan", "no_subnet"}}}
	for text, want := range map[string][]string{
		"SubnetExausted": {"SubnetExhausted"},
		"NetworkNotFond": {"NetworkNotFound"},
		"valn":           {"vlan"},
		"Subnet":         {"SubnetExhausted", "SubnetNotFound", "no_subnet"},
		"weather":        nil,
		"":               nil,
	} {
		if got := Near(entries, text); !slices.Equal(got, want) {
			t.Errorf("%q is near %q, want %q", text, got, want)
		}
	}
}

func TestWrite_LongText_LinesWrapped(t *testing.T) {
	var out strings.Builder
	long := strings.Repeat("a word ", 60) + strings.Repeat("x", 2*width)
	if err := Write(&out, []Entry{{Words: []string{"One"}, Kind: "reason", Meaning: long}, {Words: []string{"Two"}, Kind: "reason"}}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > width+1 && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("a line of %d letters: %s", len(line), line)
		}
	}
	if !strings.Contains(out.String(), "\n\nTwo (reason)\n") || !strings.Contains(out.String(), "  do:        nothing\n") {
		t.Errorf("printed\n%s", out.String())
	}
}
