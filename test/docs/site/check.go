// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/net/html"
)

// document is a page of the site: the anchors that it has, and its links.
type document struct {
	anchors map[string]bool
	links   []string
}

// broken returns the links of a site that lead to nothing of it.
func broken(site string) (problems []error) {
	documents := map[string]document{}
	files := map[string]bool{}
	err := fs.WalkDir(os.DirFS(site), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name] = true
		if !strings.HasSuffix(name, ".html") {
			return nil
		}
		content, err := os.ReadFile(filepath.Join(site, name))
		if err != nil {
			return err
		}
		documents[name], err = parse(content)
		return err
	})
	if err != nil {
		return []error{err}
	}
	if len(documents) < 10 {
		problems = append(problems, fmt.Errorf("the site has %d pages, want 10 or more", len(documents)))
	}
	for name, page := range documents {
		for _, link := range page.links {
			if problem := follow(name, link, files, documents); problem != "" {
				problems = append(problems, fmt.Errorf("%s: %s: %s", name, link, problem))
			}
		}
	}
	return problems
}

// follow returns why a link of a page leads to nothing.
func follow(from, link string, files map[string]bool, documents map[string]document) string {
	address, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if address.IsAbs() {
		return ""
	}
	to := from
	if address.Path != "" {
		to = path.Join(path.Dir(from), address.Path)
	}
	if strings.HasSuffix(address.Path, "/") {
		to = path.Join(to, "index.html")
	}
	page, isPage := documents[to]
	switch {
	case !files[to]:
		return "the site has no " + to
	case isPage && address.Fragment != "" && !page.anchors[address.Fragment]:
		return to + " has no anchor " + address.Fragment
	}
	return ""
}

func parse(content []byte) (document, error) {
	page := document{anchors: map[string]bool{}}
	root, err := html.Parse(bytes.NewReader(content))
	if err != nil {
		return page, err
	}
	for node := range root.Descendants() {
		for _, attribute := range node.Attr {
			switch attribute.Key {
			case "id":
				page.anchors[attribute.Val] = true
			case "href", "src":
				page.links = append(page.links, attribute.Val)
			}
		}
	}
	return page, nil
}
