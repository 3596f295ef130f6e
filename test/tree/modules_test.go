// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// TestGoMod_Blocks_SortedByUse compares the blocks of go.mod with the programs: the first two
// blocks have the modules that are linked into one of them, and the other two have the rest. Each
// first block has what the code imports, and each second one what modules import.
func TestGoMod_Blocks_SortedByUse(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	linked, blocks := modulesOf(t, "./cmd/..."), blocksOf(file)
	if len(blocks) != 4 {
		t.Fatalf("go.mod has %d blocks of modules, want 4: those of the product, and the rest", len(blocks))
	}
	for _, r := range file.Require {
		want := 0
		if !slices.Contains(linked, r.Mod.Path) {
			want = 2
		}
		if r.Indirect {
			want++
		}
		if !slices.Contains(blocks[want], r.Mod.Path) {
			t.Errorf("move %s to block %d of go.mod", r.Mod.Path, want+1)
		}
	}
}

// blocksOf returns the modules of each block.
func blocksOf(file *modfile.File) (blocks [][]string) {
	for _, statement := range file.Syntax.Stmt {
		block, ok := statement.(*modfile.LineBlock)
		if !ok || block.Token[0] != "require" {
			continue
		}
		var paths []string
		for _, line := range block.Line {
			paths = append(paths, line.Token[0])
		}
		blocks = append(blocks, paths)
	}
	return blocks
}

// modulesOf returns the modules that are linked into programs.
func modulesOf(t *testing.T, programs string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", programs)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the packages of %s: %v", programs, err)
	}
	return strings.Fields(string(out))
}
