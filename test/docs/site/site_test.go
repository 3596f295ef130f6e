// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/docs/pages"
)

// TestLay_EachPage_OwnPlace: no page is left out, and no two have one place.
func TestLay_EachPage_OwnPlace(t *testing.T) {
	project := t.TempDir()
	if err := lay("../../..", project); err != nil {
		t.Fatal(err)
	}
	all, err := pages.All("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range all {
		place := placeOf(page.Path)
		if strings.HasPrefix(page.Path, ".") != (place == "") {
			t.Errorf("%s has the place %q", page.Path, place)
		}
	}
	for _, want := range []string{"hugo.toml", "content/_index.md", "content/docs/_index.md", "content/docs/design/_index.md", "content/docs/tenants/_index.md", "static/docs/operate/scale/cpu.svg"} {
		if _, err := os.Stat(filepath.Join(project, want)); err != nil {
			t.Error(err)
		}
	}
}

func TestSiteLinks_Broken_Found(t *testing.T) {
	site := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(site, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range strings.Fields("1 2 3 4 5 6 7 8 9") {
		write(name+".html", "")
	}
	write("docs/index.html", `<h2 id="there">x</h2><a href="../a.html#gone">`)
	write("a.html", `<a href="docs/#there"><a href="docs/index.html"><a href="https://example.com/"><img src="missing.svg"><a href="#none">`)
	var got []string
	for _, problem := range broken(site) {
		got = append(got, problem.Error())
	}
	slices.Sort(got)
	want := []string{
		"a.html: #none: a.html has no anchor none",
		"a.html: missing.svg: the site has no missing.svg",
		"docs/index.html: ../a.html#gone: a.html has no anchor gone",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
