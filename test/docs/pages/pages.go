// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pages reads the Markdown files of the repository: their anchors, links, blocks of
// code and inline code.
package pages

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Page is a Markdown file.
type Page struct {
	// Path is the file's, below the root folder, with slashes.
	Path string
	// Headings are in the order of the page.
	Headings []Heading
	Links    []Text
	Blocks   []Block
	// Spans are the inline code.
	Spans []Text
	// Tags are tags of HTML outside of code, without comments.
	Tags []Text
}

// Heading is a heading with the anchor that the forges give it.
type Heading struct {
	Level        int
	Text, Anchor string
}

// Text is a part of a page, with its line.
type Text struct {
	Text string
	Line int
}

// Block is a block of code. Mark is the text behind its language.
type Block struct {
	Language, Mark string
	Text
}

// Title returns the text of the first heading.
func (p *Page) Title() string {
	if len(p.Headings) == 0 {
		return ""
	}
	return p.Headings[0].Text
}

// HasAnchor reports whether a link can lead to an anchor of the page.
func (p *Page) HasAnchor(anchor string) bool {
	for _, heading := range p.Headings {
		if heading.Anchor == anchor {
			return true
		}
	}
	return false
}

// At names a line of the page for the message of a test.
func (p *Page) At(line int) string { return fmt.Sprintf("%s:%d", p.Path, line) }

// skipped are folders with nothing that is written by people for people.
func skipped(name string) bool {
	return name == "bin" || name == "testdata" || name == "node_modules" ||
		strings.HasPrefix(name, ".") && name != "." && name != ".github"
}

// Files calls found for each file below the root folder whose name ends with one of the
// endings. The folders of builds, labs and test data are left out.
func Files(root string, endings []string, found func(name string, content []byte) error) error {
	return fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if skipped(entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		for _, ending := range endings {
			if strings.HasSuffix(name, ending) {
				content, err := os.ReadFile(filepath.Join(root, name))
				if err != nil {
					return err
				}
				return found(name, content)
			}
		}
		return nil
	})
}

// All returns the Markdown files below the root folder, in the order of their paths.
func All(root string) (all []*Page, err error) {
	err = Files(root, []string{".md"}, func(name string, content []byte) error {
		all = append(all, Parse(name, content))
		return nil
	})
	return all, err
}

// Below returns the pages in a folder and those below it.
func Below(all []*Page, folder string) (list []*Page) {
	for _, page := range all {
		if strings.HasPrefix(page.Path, folder+"/") {
			list = append(list, page)
		}
	}
	return list
}

// Target returns the file and the anchor that a link of the page leads to. It is false for a link
// to the web.
func (p *Page) Target(link string) (file, anchor string, here bool) {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return "", "", false
	}
	file, anchor, _ = strings.Cut(link, "#")
	switch {
	case file == "":
		file = p.Path
	case strings.HasPrefix(file, "/"):
		file = path.Clean(file[1:])
	default:
		file = path.Join(path.Dir(p.Path), file)
	}
	return file, anchor, true
}

// Parse reads a page.
func Parse(name string, content []byte) *Page {
	page := &Page{Path: name}
	r := reader{page: page, content: content, anchors: map[string]int{}}
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(content))
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if entering {
			r.node(node)
		}
		return ast.WalkContinue, nil
	})
	return page
}

type reader struct {
	page    *Page
	content []byte
	// anchors counts the headings that had the same text.
	anchors map[string]int
	// line is the line of the last block.
	line int
}

func (r *reader) node(node ast.Node) {
	if node.Type() == ast.TypeBlock && node.Lines() != nil && node.Lines().Len() > 0 {
		r.line = r.lineOf(node.Lines().At(0).Start)
	}
	switch n := node.(type) {
	case *ast.Heading:
		r.heading(n)
	case *ast.Link:
		r.page.Links = append(r.page.Links, Text{string(n.Destination), r.line})
	case *ast.Image:
		r.page.Links = append(r.page.Links, Text{string(n.Destination), r.line})
	case *ast.RawHTML:
		r.tag(string(n.Segments.Value(r.content)))
	case *ast.HTMLBlock:
		r.tag(string(n.Lines().Value(r.content)))
	case *ast.CodeSpan:
		r.page.Spans = append(r.page.Spans, Text{r.plain(n), r.line})
	case *ast.FencedCodeBlock:
		block := Block{Text: Text{string(n.Lines().Value(r.content)), r.line}}
		if n.Info != nil {
			block.Language, block.Mark, _ = strings.Cut(string(n.Info.Value(r.content)), " ")
		}
		r.page.Blocks = append(r.page.Blocks, block)
	}
}

func (r *reader) tag(text string) {
	if !strings.HasPrefix(text, "<!--") {
		r.page.Tags = append(r.page.Tags, Text{text, r.line})
	}
}

func (r *reader) heading(n *ast.Heading) {
	plain := r.plain(n)
	anchor := Anchor(plain)
	count := r.anchors[anchor]
	r.anchors[anchor]++
	if count > 0 {
		anchor = fmt.Sprintf("%s-%d", anchor, count)
	}
	r.page.Headings = append(r.page.Headings, Heading{Level: n.Level, Text: plain, Anchor: anchor})
}

// Anchor returns the anchor of a heading as the forges form it.
func Anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// plain returns the text of a node without its marks.
func (r *reader) plain(node ast.Node) string {
	var all strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if leaf, ok := n.(*ast.Text); ok && entering {
			all.Write(leaf.Segment.Value(r.content))
			if leaf.SoftLineBreak() {
				all.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return all.String()
}

func (r *reader) lineOf(offset int) int { return 1 + bytes.Count(r.content[:offset], []byte("\n")) }
