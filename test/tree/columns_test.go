// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBPFSources_Lines_AtMost120Columns finds long comments too, which clang-format leaves alone. A
// tab counts as eight columns.
func TestBPFSources_Lines_AtMost120Columns(t *testing.T) {
	const most = 120
	files, err := filepath.Glob("../../ebpf/src/*.[ch]")
	if err != nil || len(files) == 0 {
		t.Fatalf("the source of the BPF programs: %d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for number, line := range strings.Split(string(text), "\n") {
			if n := columns(line); n > most {
				t.Errorf("%s:%d has %d columns, and %d are permitted: break the line", file, number+1, n, most)
			}
		}
	}
}

// columns returns the width of a line.
func columns(line string) (n int) {
	const tab = 8
	for _, r := range line {
		if r == '\t' {
			n += tab - n%tab
		} else {
			n++
		}
	}
	return n
}
