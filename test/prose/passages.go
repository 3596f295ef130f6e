// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package prose

import (
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// Passage is text for people: a comment, or a paragraph of a page.
type Passage struct {
	// Text has the lines, without the signs of comments.
	Text string
	// Line is the number of the first line, from 1.
	Line int
}

// inQuotes is code inside of text. Its letters are blanked, so that lines and columns stay.
var inQuotes = regexp.MustCompile("`[^`\n]*`|\"[^\"\n]*\"")

func blank(s string) string {
	return inQuotes.ReplaceAllStringFunc(s, func(code string) string { return strings.Repeat("_", len(code)) })
}

// Comments returns the comments of a Go file. Directives and blocks of code are left out.
func Comments(file string, content []byte) ([]Passage, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var list []Passage
	for _, group := range parsed.Comments {
		var lines []string
		for _, c := range group.List {
			for line := range strings.Lines(c.Text) {
				lines = append(lines, commentLine(line))
			}
		}
		list = append(list, Passage{blank(strings.Join(lines, "\n")), files.Position(group.Pos()).Line})
	}
	return list, nil
}

// commentLine returns a line without the signs of a comment, and "" for code and directives.
func commentLine(line string) string {
	line = strings.TrimSpace(line)
	for _, sign := range []string{"//", "/*", "*/", "*"} {
		line = strings.TrimPrefix(line, sign)
	}
	line = strings.TrimSuffix(line, "*/")
	if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "go:") ||
		strings.HasPrefix(line, "nolint") {
		return ""
	}
	return line
}

// Page returns the paragraphs of a Markdown file, without its blocks of code.
func Page(content []byte) (list []Passage) {
	var lines []string
	begin, code := 0, false
	end := func() {
		if len(lines) > 0 {
			list = append(list, Passage{blank(strings.Join(lines, "\n")), begin})
		}
		lines = nil
	}
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			code = !code
			end()
		case code:
		case strings.TrimSpace(line) == "":
			end()
		default:
			if len(lines) == 0 {
				begin = number
			}
			lines = append(lines, line)
		}
	}
	end()
	return list
}
