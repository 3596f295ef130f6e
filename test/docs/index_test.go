// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/docs/pages"
)

// index is the page that has all others.
const index = "docs/README.md"

// ownIndex are the folders whose README.md has their pages.
var ownIndex = []string{"docs/design", "docs/examples", "docs/operate/scale"}

// TestIndex_EachPage_ListedOnce: docs/README.md leads to each page of docs/ once, and the README.md
// of a folder with an index of its own to each page of the folder.
func TestIndex_EachPage_ListedOnce(t *testing.T) {
	all, byPath := read(t)
	for _, page := range pages.Below(all, "docs") {
		if page.Path == index {
			continue
		}
		lists := indexOf(page.Path)
		count := links(byPath[lists], page.Path)
		switch {
		case count == 0:
			t.Errorf("%s does not list %s", lists, page.Path)
		case count > 1 && lists == index:
			t.Errorf("%s lists %s %d times: a page has one place", lists, page.Path, count)
		}
		if page.Title() == "" || page.Headings[0].Level != 1 {
			t.Errorf("%s does not begin with its title", page.Path)
		}
	}
}

// indexOf returns the page that lists a page.
func indexOf(name string) string {
	for _, folder := range ownIndex {
		if strings.HasPrefix(name, folder+"/") && name != folder+"/README.md" {
			return folder + "/README.md"
		}
	}
	return index
}

// links counts the links of a page to a file or, for a README.md, to its folder.
func links(from *pages.Page, to string) (count int) {
	if from == nil {
		return 0
	}
	for _, link := range from.Links {
		file, anchor, here := from.Target(link.Text)
		if here && anchor == "" && slices.Contains([]string{to, strings.TrimSuffix(to, "/README.md")}, path.Clean(file)) {
			count++
		}
	}
	return count
}
