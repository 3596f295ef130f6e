// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/docs/pages"
)

const root = "../.."

// read returns the pages of the repository, and the same by path.
func read(t *testing.T) (all []*pages.Page, byPath map[string]*pages.Page) {
	t.Helper()
	all, err := pages.All(root)
	if err != nil {
		t.Fatal(err)
	}
	byPath = map[string]*pages.Page{}
	for _, page := range all {
		byPath[page.Path] = page
	}
	if byPath["README.md"] == nil || byPath["docs/README.md"] == nil {
		t.Fatal("README.md or docs/README.md was not found")
	}
	return all, byPath
}

// TestLinks_Each_LeadsSomewhere: each relative link of each Markdown file leads to a file or a
// folder of the repository, and its anchor to a heading.
func TestLinks_Each_LeadsSomewhere(t *testing.T) {
	all, byPath := read(t)
	links := 0
	for _, page := range all {
		for _, link := range page.Links {
			file, anchor, here := page.Target(link.Text)
			if !here {
				continue
			}
			links++
			if problem := leads(byPath, file, anchor); problem != "" {
				t.Errorf("%s: %s: %s", page.At(link.Line), link.Text, problem)
			}
		}
	}
	if links < 300 {
		t.Errorf("%d links were found, want 300 or more", links)
	}
}

// leads returns why a file with an anchor can't be shown.
func leads(byPath map[string]*pages.Page, file, anchor string) string {
	if _, err := os.Stat(filepath.Join(root, file)); errors.Is(err, fs.ErrNotExist) {
		return "there is no " + file
	}
	if page := byPath[file]; anchor != "" && (page == nil || !page.HasAnchor(anchor)) {
		return file + " has no heading with the anchor " + anchor
	}
	return ""
}

var (
	// page is a page of docs/ as sources name it.
	namedPage = regexp.MustCompile(`\bdocs/[a-z0-9_/.-]*\.(?:md|yaml|svg)(?:#[a-z0-9_-]+)?`)
	// record is a design record as sources name it.
	namedRecord = regexp.MustCompile(`\bdesign[/ ]([01][0-9]{2})\b`)
	// section is a heading as messages named it before they had anchors.
	namedSection = regexp.MustCompile(`\\?"[^"\\]+\\?" (?:in|of) docs/`)
)

// sources are the endings of files that name pages: programs, their messages, the chart.
var sources = []string{".go", ".c", ".h", ".yaml", ".yml", ".tpl", ".txt", ".json", ".sh", ".md", "Makefile"}

// TestSources_NamedPages_Exist: messages of the product send people to pages, and comments send
// engineers there.
func TestSources_NamedPages_Exist(t *testing.T) {
	_, byPath := read(t)
	records, err := filepath.Glob(filepath.Join(root, "docs/design/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	err = pages.Files(root, sources, func(name string, content []byte) error {
		if name == "CHANGELOG.md" || strings.HasPrefix(name, "test/docs/") {
			return nil // a changelog names pages as they were called
		}
		text := linesWith(string(content), "docs/", "design")
		for _, found := range namedPage.FindAllString(text, -1) {
			named++
			file, anchor, _ := strings.Cut(found, "#")
			if problem := leads(byPath, file, anchor); problem != "" {
				t.Errorf("%s names %s: %s", name, found, problem)
			}
		}
		for _, found := range namedRecord.FindAllStringSubmatch(text, -1) {
			if !hasRecord(records, found[1]) {
				t.Errorf("%s names the design record %s, which does not exist", name, found[1])
			}
		}
		if found := namedSection.FindString(text); found != "" {
			t.Errorf("%s names a section as %s: write the page with its anchor, docs/x.md#section", name, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 20 {
		t.Errorf("sources name %d pages, want 20 or more", named)
	}
}

// linesWith returns the lines of a text that have one of the words: most files have none.
func linesWith(text string, words ...string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		for _, word := range words {
			if strings.Contains(line, word) {
				all.WriteString(line)
				break
			}
		}
	}
	return all.String()
}

func hasRecord(records []string, number string) bool {
	for _, record := range records {
		if strings.HasPrefix(filepath.Base(record), number+"-") {
			return true
		}
	}
	return false
}

// tags are the tags that pages may use. Forges leave out others with their text: <name> outside of
// code is nowhere on the page.
var tags = regexp.MustCompile(`^</?(?:a|br|details|div|img|kbd|p|picture|source|sub|summary|sup)\b`)

func TestPages_NameInAngleBrackets_IsCode(t *testing.T) {
	all, _ := read(t)
	for _, page := range all {
		for _, tag := range page.Tags {
			if !tags.MatchString(tag.Text) {
				t.Errorf("%s: %s outside of code is no tag, and is not shown: write it as code", page.At(tag.Line), tag.Text)
			}
		}
	}
}
