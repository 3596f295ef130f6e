// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"path"
	"regexp"
	"strings"
)

// Recipe is one list of files, with its example.
type Recipe struct {
	Title string
	// Examples are the identifiers of the example. Every place has one of them.
	Examples []string
	Steps    []Step
}

// Step is one line of the list.
type Step struct {
	Text string
	// Paths may have holes, such as <kind>, and may be folders.
	Paths []string
	// Optional steps begin with "If": the example does not need them.
	Optional bool
}

const heading = "## Where something new goes\n"

var (
	title  = regexp.MustCompile(`^\*\*(.+?)\*\*`)
	sample = regexp.MustCompile("The example is ((?:`[^`]+`(?:, | and )?)+)")
	quoted = regexp.MustCompile("`([^`]+)`")
	number = regexp.MustCompile(`^\d+\. `)
	// hole is a part of a path that the reader fills in.
	hole = regexp.MustCompile(`<[a-z]+>`)
)

// Parse returns the recipes of the page.
func Parse(page string) (all []Recipe) {
	_, rest, _ := strings.Cut(page, heading)
	section, _, _ := strings.Cut(rest, "\n## ")
	for line := range strings.Lines(section) {
		if found := title.FindStringSubmatch(line); found != nil {
			all = append(all, Recipe{Title: found[1]})
		}
		if len(all) == 0 {
			continue
		}
		last := &all[len(all)-1]
		if found := sample.FindStringSubmatch(line); found != nil {
			last.Examples = append(last.Examples, words(found[1])...)
		}
		if number.MatchString(line) {
			last.Steps = append(last.Steps, step(line))
		}
	}
	return all
}

// step reads one numbered line. Its paths are the quoted words with a slash below a top folder.
func step(line string) Step {
	text := number.ReplaceAllString(strings.TrimSpace(line), "")
	s := Step{Text: text, Optional: strings.HasPrefix(text, "If ")}
	for _, word := range words(text) {
		if top, _, below := strings.Cut(word, "/"); below && tops[top] {
			s.Paths = append(s.Paths, word)
		}
	}
	return s
}

// tops are the folders of the repository whose paths count as places.
var tops = map[string]bool{
	"api":      true,
	"cmd":      true,
	"cnid":     true,
	"docs":     true,
	"ebpf":     true,
	"helm":     true,
	"operator": true,
	"store":    true,
	"test":     true,
}

func words(text string) (all []string) {
	for _, found := range quoted.FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	return all
}

// Fits reports whether a path of a step, with its holes filled in, is the file or a folder above it.
func Fits(pattern, file string) bool {
	pattern = hole.ReplaceAllString(pattern, "*")
	for part := file; part != "."; part = path.Dir(part) {
		if ok, err := path.Match(pattern, part); ok && err == nil {
			return true
		}
	}
	return false
}

// Has reports whether a text has an identifier that no longer word surrounds.
func Has(text, identifier string) bool {
	for at := 0; ; {
		found := strings.Index(text[at:], identifier)
		if found < 0 {
			return false
		}
		from, to := at+found, at+found+len(identifier)
		if (from == 0 || !isWord(text[from-1])) && (to == len(text) || !isWord(text[to])) {
			return true
		}
		at = from + 1
	}
}

func isWord(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
