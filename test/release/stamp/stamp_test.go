// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/needs"
)

const root = "../../.."

// clone makes a repository with a program, a document and a test, and returns a function that
// commits all changes in it.
func clone(t *testing.T) (dir string, commit func(changed string) string) {
	t.Helper()
	dir = t.TempDir()
	run := func(args ...string) string {
		out, err := git(t.Context(), dir, append([]string{"-c", "commit.gpgsign=false", "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	run("init", "-q")
	return dir, func(changed string) string {
		path := filepath.Join(dir, changed)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("one more line\n"); err != nil {
			t.Fatal(err)
		}
		run("add", "-A")
		run("commit", "-q", "-m", changed)
		return run("rev-parse", "HEAD")
	}
}

func TestStamp_EachCommit_FollowsItsFiles(t *testing.T) {
	dir, commit := clone(t)
	source := commit("cmd/alioth/main.go")
	commit("cmd/alioth/main_test.go")
	last := commit("README.md")
	if got, err := OfSources(t.Context(), dir); err != nil || got.Commit != source || got.Modified || got.Time.IsZero() {
		t.Errorf("the stamp of the sources is %+v, want the commit %s", got, source)
	}
	got, err := OfRelease(t.Context(), dir)
	if err != nil || got.Commit != last || got.Modified {
		t.Errorf("the stamp of a release is %+v, %v, want the commit %s", got, err, last)
	}
	write(t, filepath.Join(dir, "README.md"), "changed")
	if got, err := OfSources(t.Context(), dir); err != nil || got.Modified {
		t.Error("a changed document counts as a change of the sources")
	}
	if got, err := OfRelease(t.Context(), dir); err != nil || !got.Modified {
		t.Errorf("a changed document does not count as a change of the release: %+v, %v", got, err)
	}
	write(t, filepath.Join(dir, "cmd/alioth/new.go"), "package main")
	if got, err := OfSources(t.Context(), dir); err != nil || !got.Modified || !strings.Contains(got.Flags(), "modified=true") {
		t.Errorf("a new source does not count as a change: %+v", got)
	}
}

func TestStamp_OutsideClone_CommitUnknown(t *testing.T) {
	dir, commit := clone(t)
	commit("inner/cmd/alioth/main.go")
	for name, folder := range map[string]string{"no repository": t.TempDir(), "a folder of the repository of something else": filepath.Join(dir, "inner")} {
		if got, err := OfSources(t.Context(), folder); err != nil || got.Commit != "" || got.Flags() != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if _, err := OfRelease(t.Context(), folder); err == nil {
			t.Errorf("%s: a release has a stamp", name)
		}
	}
}

// TestStamp_UnreadableClone_Error: programs without a stamp would look like programs of sources
// without a history.
func TestStamp_UnreadableClone_Error(t *testing.T) {
	dir, commit := clone(t)
	commit("cmd/alioth/main.go")
	write(t, filepath.Join(dir, ".git/HEAD"), "broken")
	if got, err := OfSources(t.Context(), dir); err == nil || got != (Stamp{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestStamp_CloneOfOtherUser_Read(t *testing.T) {
	needs.Root(t, "to give files to another user")
	dir, commit := clone(t)
	want := commit("cmd/alioth/main.go")
	if out, err := exec.CommandContext(t.Context(), "chown", "-R", "65534", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, err := OfSources(t.Context(), dir); err != nil || got.Commit != want {
		t.Errorf("got %+v, %v, want the commit %s", got, err, want)
	}
}

// The linker ignores variables that do not exist, so the program itself has to tell.
func TestStamp_LinkedProgram_Told(t *testing.T) {
	s := Stamp{Commit: strings.Repeat("ab", 20), Time: time.Unix(1795989082, 0).UTC(), Modified: true}
	program := filepath.Join(t.TempDir(), "alioth")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", s.Flags(), "-o", program, "./cmd/alioth")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program, "--version").Output()
	if want := "commit abababababab with changes of 2026-11-29T21:51:22Z"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("the program says %q, %v, want %q in it", out, err, want)
	}
}

func TestSources_ProgramPackages_AllListed(t *testing.T) {
	readPrograms(t)
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", "./cmd/...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		folder := strings.TrimPrefix(path, "github.com/alioth-net/alioth/")
		if !slices.ContainsFunc(Sources(), func(source string) bool { return strings.HasPrefix(folder+"/", source+"/") }) {
			t.Errorf("the programs need %s, which Sources lacks", path)
		}
	}
}

// readPrograms reads the Go files of the programs: a result in Go's cache depends on the files that
// the process of the test has opened, and the go command runs as a process of its own.
func readPrograms(t *testing.T) {
	t.Helper()
	for _, source := range Sources() {
		err := filepath.WalkDir(filepath.Join(root, source), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			_, err = os.ReadFile(path)
			return err
		})
		if err != nil && !strings.HasPrefix(source, ":") { // git's pattern of the left-out files
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
