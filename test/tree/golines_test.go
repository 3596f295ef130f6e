// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// mostColumns and mostTestColumns are how long lines of Go are, in characters: of the product, and
// of tests with their programs. Text literals do not count, because no break improves a message. A
// case in a table of a test is one row.
const (
	mostColumns     = 120
	mostTestColumns = 160
)

// TestGoLines_EachFile_AtMost120Columns finds the lines that gofmt leaves alone.
func TestGoLines_EachFile_AtMost120Columns(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || isGenerated(text) {
			return err
		}
		checked++
		most := mostColumns
		if name := strings.TrimPrefix(path, root+"/"); strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") {
			most = mostTestColumns
		}
		for number, width := range widths(text) {
			if width > most {
				t.Errorf("%s:%d has %d columns besides its text literals, and %d are permitted: break the line", strings.TrimPrefix(path, root+"/"), number+1, width, most)
			}
		}
		return nil
	})
	if err != nil || checked < 1000 {
		t.Errorf("%d files were checked, %v", checked, err)
	}
}

// isGenerated reports whether a program has written a file of Go (https://go.dev/s/generatedcode).
func isGenerated(text []byte) bool {
	head, _, _ := strings.Cut(string(text), "\npackage ")
	return strings.Contains(head, "DO NOT EDIT.")
}

// isDirective reports whether a comment is a line for a generator.
func isDirective(comment string) bool {
	return strings.HasPrefix(comment, "// +kubebuilder:") || strings.HasPrefix(comment, "//go:generate ")
}

// widths returns the number of characters of each line of Go, without text literals and markers of
// generators.
func widths(text []byte) []int {
	lines := strings.Split(string(text), "\n")
	list := make([]int, len(lines))
	for i, line := range lines {
		list[i] = utf8.RuneCountInString(line)
	}
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			return list
		}
		if kind == token.STRING || kind == token.COMMENT && isDirective(literal) {
			for i, part := range strings.Split(literal, "\n") {
				list[file.Line(pos)-1+i] -= utf8.RuneCountInString(part)
			}
		}
	}
}

func TestWidths_TextLiterals_NotCounted(t *testing.T) {
	got := widths([]byte("package p\n\nvar a, b = \"text\", `raw\nof two lines`, c\n// +kubebuilder:validation:MaxLength=9\n\t// words\n"))
	want := []int{9, 0, 13, 3, 0, 9, 0}
	if len(got) != len(want) {
		t.Fatalf("widths are %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("the width of line %d is %d, want %d", i+1, got[i], want[i])
		}
	}
}
