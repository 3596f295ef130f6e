// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/docs/pages"
)

func TestParse_Page_ReadLikeForges(t *testing.T) {
	const text = "# A `b`: the node's c?\n" +
		"## Twice\nSee [x](other.md#there) and `code | span`.\n\n## Twice\n" +
		"| a | b |\n| --- | --- |\n| [y](#twice-1) | `z` |\n\n" +
		"```yaml fragment\nkind: [not](a-link.md)\n```\n\n```\n# no heading\n```\n"
	want := &pages.Page{
		Path: "docs/a.md",
		Headings: []pages.Heading{
			{Level: 1, Text: "A b: the node's c?", Anchor: "a-b-the-nodes-c"},
			{Level: 2, Text: "Twice", Anchor: "twice"},
			{Level: 2, Text: "Twice", Anchor: "twice-1"},
		},
		Links: []pages.Text{{Text: "other.md#there", Line: 3}, {Text: "#twice-1", Line: 8}},
		Spans: []pages.Text{{Text: "b", Line: 1}, {Text: "code | span", Line: 3}, {Text: "z", Line: 8}},
		Blocks: []pages.Block{
			{Language: "yaml", Mark: "fragment", Text: pages.Text{Text: "kind: [not](a-link.md)\n", Line: 11}},
			{Text: pages.Text{Text: "# no heading\n", Line: 15}},
		},
	}
	got := pages.Parse("docs/a.md", []byte(text))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for link, want := range map[string]string{
		"other.md#there": "docs/other.md there", "#twice": "docs/a.md twice", "../b.md": "b.md ", "/c.md": "c.md ", "https://example.com/": " ",
	} {
		file, anchor, _ := got.Target(link)
		if is := strings.Join([]string{file, anchor}, " "); is != want {
			t.Errorf("%s leads to %q, want %q", link, is, want)
		}
	}
}

func TestCommands_Lines_SplitLikeShell(t *testing.T) {
	const text = "`aliothctl trace <pod or node> 10.0.0.1 | jq '.a | b'` and `kubectl alioth status`, `in aliothctl`\n\n" +
		"```sh\n# a comment\nX=1 .cluster/bin/kubectl get pods -o 'jsonpath={.a # b}' > out.txt  # the pods\nhelm install a \\\n  --set b=c && make up NODES=3\n```\n\n" +
		"```\n$ aliothctl verify\naliothctl is no command here\n```\n\n```yaml\nmake: it\n```\n"
	want := []pages.Command{
		{Words: []string{"kubectl", "get", "pods", "-o", "jsonpath={.a # b}"}, Line: 5, Whole: true},
		{Words: []string{"helm", "install", "a", "--set", "b=c"}, Line: 7, Whole: true},
		{Words: []string{"make", "up", "NODES=3"}, Line: 7, Whole: true},
		{Words: []string{"aliothctl", "verify"}, Line: 11, Whole: true},
		{Words: []string{"aliothctl", "trace", "<pod or node>", "10.0.0.1"}, Line: 1},
		{Words: []string{"aliothctl", "status"}, Line: 1},
	}
	if diff := cmp.Diff(want, pages.Parse("a.md", []byte(text)).Commands()); diff != "" {
		t.Error(diff)
	}
}
