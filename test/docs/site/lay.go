// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/alioth-net/alioth/test/docs/pages"
)

// theme is the folder with the configuration, templates and styles of the site.
const theme = "docs/site"

// lay copies the theme, all pages, and the files in docs that pages show or link. A folder
// without a page gets an empty one, which Hugo needs to list its pages.
func lay(root, project string) error {
	if err := os.CopyFS(project, os.DirFS(filepath.Join(root, theme))); err != nil {
		return err
	}
	folders := map[string]bool{}
	err := pages.Files(root, []string{".md", ".svg", ".yaml"}, func(name string, content []byte) error {
		to := placeOf(name)
		if to == "" {
			return nil
		}
		if strings.HasPrefix(to, "content/docs/") {
			folders[path.Dir(to)] = folders[path.Dir(to)] || path.Base(to) == "_index.md"
		}
		return write(project, to, content)
	})
	for folder, hasPage := range folders {
		if err == nil && !hasPage {
			err = write(project, path.Join(folder, "_index.md"), []byte("---\ntitle: "+path.Base(folder)+"\n---\n"))
		}
	}
	return err
}

func write(project, to string, content []byte) error {
	file := filepath.Join(project, filepath.FromSlash(to))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// placeOf returns where Hugo expects a file, "" if the site does not have it. The page of a
// folder is README.md for forges and _index.md for Hugo.
func placeOf(name string) string {
	folder, base := path.Split(name)
	switch {
	case strings.HasPrefix(name, theme+"/"), strings.HasPrefix(name, "."):
		return ""
	case base == "README.md":
		return path.Join("content", folder, "_index.md")
	case strings.HasSuffix(name, ".md"):
		return path.Join("content", name)
	case strings.HasPrefix(name, "docs/"):
		return path.Join("static", name)
	}
	return ""
}
