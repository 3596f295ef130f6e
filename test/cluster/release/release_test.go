// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// root of the work tree, seen from this package's folder.
const root = "../../.."

func TestLast_List_FirstIsNewest(t *testing.T) {
	last, err := Last(root)
	if err != nil || last.Version == "" || last.Commit == "" {
		t.Errorf("got %+v, %v", last, err)
	}
	if _, err := Last(t.TempDir()); err == nil {
		t.Error("a folder without a list has a release")
	}
}

// git runs a git command in a folder.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// history returns a repository with two commits. The second removes a file.
func history(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "--quiet")
	file := filepath.Join(dir, "old")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", "old")
	git(t, dir, "commit", "--quiet", "-m", "one")
	git(t, dir, "rm", "--quiet", "old")
	git(t, dir, "commit", "--quiet", "-m", "two")
	return dir
}

func TestExtract_EarlierCommit_ItsSources(t *testing.T) {
	b := &Builder{Root: history(t)}
	commit, err := b.find(t.Context(), "HEAD~1")
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(t.TempDir(), "tree")
	if err := b.extract(t.Context(), commit, tree); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(tree, "old")); err != nil || string(text) != "old" {
		t.Errorf("the file of the first commit: %q, %v", text, err)
	}
}

// TestFind_ShallowHistory_Told tells a clone that can be completed from a wrong commit.
func TestFind_ShallowHistory_Told(t *testing.T) {
	full, shallow, none := history(t), filepath.Join(t.TempDir(), "shallow"), t.TempDir()
	git(t, full, "clone", "--quiet", "--depth", "1", "file://"+full, shallow)
	first, err := (&Builder{Root: full}).find(t.Context(), "HEAD~1")
	if err != nil {
		t.Fatal(err)
	}
	broken := history(t)
	if err := os.WriteFile(filepath.Join(broken, ".git", "HEAD"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		root, commit string
		noHistory    bool
	}{
		"a shallow clone":             {shallow, first, true},
		"a folder without repository": {none, first, true},
		"a clone that git can't read": {broken, first, false},
		"a complete clone":            {full, "0123456789012345678901234567890123456789", false},
		"an option":                   {full, "--all", false},
	} {
		_, err := (&Builder{Root: tt.root}).find(t.Context(), tt.commit)
		if err == nil || errors.Is(err, ErrNoHistory) != tt.noHistory {
			t.Errorf("%s: %v, want an error that is ErrNoHistory: %v", name, err, tt.noHistory)
		}
	}
}
