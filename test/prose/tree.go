// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package prose

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// skipped are folders and files without text of this project for people: what tests read, what
// programs write, headers of libbpf, and the changes of the past.
var skipped = regexp.MustCompile(
	`^(\.git|bin)/|/testdata/|^ebpf/src/headers/bpf/|^CHANGELOG\.md$|zz_generated|^ebpf/bpf/.*_bpf\w*\.go$|^test/prose/`,
)

// Tree returns the findings in all files below the root of the repository.
func (c *Checker) Tree(root string) (list []Finding, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || skipped.MatchString(name) {
			return err
		}
		passages, err := read(path)
		if err != nil {
			return err
		}
		list = append(list, c.Check(name, passages)...)
		return nil
	})
	return list, err
}

// read returns the passages of a file, none for a file of another type.
func read(path string) ([]Passage, error) {
	extension := filepath.Ext(path)
	if extension != ".go" && extension != ".md" && extension != ".c" && extension != ".h" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	switch extension {
	case ".go":
		return Comments(path, content)
	case ".md":
		return Page(content), nil
	}
	return cComments(string(content)), nil
}

var cComment = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)

// cComments returns the comments of a C file.
func cComments(content string) (list []Passage) {
	for _, at := range cComment.FindAllStringIndex(content, -1) {
		var lines []string
		for line := range strings.Lines(content[at[0]:at[1]]) {
			lines = append(lines, commentLine(line))
		}
		list = append(list, Passage{blank(strings.Join(lines, "\n")), 1 + strings.Count(content[:at[0]], "\n")})
	}
	return list
}

// Area returns the folder by which findings are counted: the first two folders of a file.
func (f Finding) Area() string {
	parts := strings.SplitN(f.File, "/", 3)
	if len(parts) < 3 {
		return filepath.Dir(f.File)
	}
	return parts[0] + "/" + parts[1]
}
