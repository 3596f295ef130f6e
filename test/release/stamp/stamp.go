// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stamp finds the commit that the programs of a work tree are built from, and writes it
// into them. `make build`, the images of the lab and releases use it. The go command can do the
// same, but not in a work tree of `git worktree`, and each commit changes each program.
package stamp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// variables is the package whose variables the linker sets.
const variables = "github.com/alioth-net/alioth/api/version"

// Stamp is the commit that a program is built from. The zero value is an unknown commit.
type Stamp struct {
	// Commit is the hash in full.
	Commit string
	// Time is the time of the commit, and not of the build: two builds of a commit are equal.
	Time time.Time
	// Modified is true if files differ from the commit.
	Modified bool
}

// Sources returns the paths whose contents decide the programs of cmd.
func Sources() []string {
	return []string{
		"api",
		"cmd",
		"cnid",
		"docs/reference",
		"ebpf",
		"helm",
		"operator",
		"store",
		"go.mod",
		"go.sum",
		":(exclude,glob)**/*_test.go",
	}
}

// ErrNoClone is the error for a folder that is not the top of a clone of the repository.
var ErrNoClone = errors.New("the folder is not the root of a clone of the repository")

// OfSources returns the last commit that changed the programs in the work tree root. Commits of
// documents and tests leave it, and so the programs and their images, as they are. Outside of
// a clone the commit is unknown.
func OfSources(ctx context.Context, root string) (Stamp, error) {
	s, err := read(ctx, root, Sources()...)
	if errors.Is(err, ErrNoClone) {
		return Stamp{}, nil
	}
	return s, err
}

// OfRelease returns the commit that is checked out in the work tree root. Any file that differs
// from the commit counts as a change.
func OfRelease(ctx context.Context, root string) (Stamp, error) { return read(ctx, root) }

func read(ctx context.Context, root string, paths ...string) (Stamp, error) {
	if err := Clone(root); err != nil {
		return Stamp{}, err
	}
	last, err := git(ctx, root, append([]string{"log", "-1", "--format=%H %ct", "--"}, paths...)...)
	if err != nil {
		return Stamp{}, err
	}
	commit, seconds, _ := strings.Cut(last, " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return Stamp{}, fmt.Errorf("read the time of the last commit from %q: %w", last, err)
	}
	changes, err := git(ctx, root, append([]string{"status", "--porcelain", "--"}, paths...)...)
	if err != nil {
		return Stamp{}, err
	}
	return Stamp{Commit: commit, Time: time.Unix(at, 0).UTC(), Modified: changes != ""}, nil
}

// Clone returns [ErrNoClone] for a folder that is not the top of a clone, such as the sources
// without their history. It does not run git, because git fails for other reasons too.
func Clone(root string) error {
	_, err := os.Lstat(filepath.Join(root, ".git"))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoClone
	}
	return err
}

// git returns the output of a git command about the work tree root. The user may differ from the
// owner of the files: all programs of a build come from these files anyway.
func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", root, "-c", "safe.directory=*"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// Flags returns the arguments of the linker that write the stamp into a program. An unknown
// commit needs none.
func (s Stamp) Flags() string {
	if s.Commit == "" {
		return ""
	}
	flags := []string{
		"-X " + variables + ".commit=" + s.Commit,
		"-X " + variables + ".date=" + s.Time.Format(time.RFC3339),
	}
	if s.Modified {
		flags = append(flags, "-X "+variables+".modified=true")
	}
	return strings.Join(flags, " ")
}
