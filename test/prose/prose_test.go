// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package prose

import (
	"strings"
	"testing"
)

func check(t *testing.T, passages []Passage) (found []string) {
	t.Helper()
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Check("file", passages) {
		found = append(found, f.String())
	}
	return found
}

func TestCheck_Phrases_Found(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"// network is that of an address.", "file:3: \"that of\""},
		{"// size is the packet size in bytes.", ""},
		{"// The devices are those\n// of the node.", "file:3: \"those of\""},
		{"// One line.\n// The pod is no member.", "file:4: \"is no\""},
		{"// It has `what is` in quotes, and \"that of\" too.", ""},
		{"// A list:\n//\twhat is code", ""},
		{"//go:embed what is", ""},
		{"/* of which\none */", "file:3: \"of which\""},
	} {
		passages, err := Comments("file", []byte("package p\n\n"+c.text+"\nvar x int\n"))
		if err != nil {
			t.Fatal(err)
		}
		found := check(t, passages)
		if (c.want == "") != (len(found) == 0) || len(found) > 0 && !strings.HasPrefix(found[0], c.want) {
			t.Errorf("%q: got %q, want %q", c.text, found, c.want)
		}
	}
}

func TestPage_Phrases_Found(t *testing.T) {
	page := "# Title\n\nThe MTU is that of the device.\n\n```\nwhat is code\n```\n\nNext `what is`\nline, by which\n"
	found := check(t, Page([]byte(page)))
	if len(found) != 2 || !strings.HasPrefix(found[0], "file:3:") || !strings.HasPrefix(found[1], "file:10:") {
		t.Errorf("got %q", found)
	}
}

func TestParse_WrongRules_Refused(t *testing.T) {
	for _, document := range []string{"rules: [{name: a, pattern: '('}]", "exceptions: ['(']", "other: 1"} {
		if _, err := parse([]byte(document)); err == nil {
			t.Errorf("%q is accepted", document)
		}
	}
}
