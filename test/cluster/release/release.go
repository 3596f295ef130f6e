// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release takes released versions of Alioth out of the repository's history: the
// chart and the image of a commit, made by the sources of that commit.
package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/images"
	"github.com/alioth-net/alioth/test/release/changelog"
	"github.com/alioth-net/alioth/test/release/stamp"
)

// ErrNoHistory is returned where the sources lack the history that the commit is in: they are not a
// clone, or a shallow one. A clone that git can't read gives another error.
var ErrNoHistory = errors.New(
	"the sources have no complete history: run git fetch --unshallow in a shallow clone, or clone the repository",
)

// listFile has the releases, below the project's root folder.
const listFile = "docs/install/releases.yaml"

// Last returns the newest release. root is the project's root folder.
func Last(root string) (changelog.Release, error) {
	text, err := os.ReadFile(filepath.Join(root, listFile))
	if err != nil {
		return changelog.Release{}, fmt.Errorf("read the list of releases: %w", err)
	}
	list, err := changelog.Releases(text)
	if err != nil {
		return changelog.Release{}, err
	}
	if len(list) == 0 {
		return changelog.Release{}, fmt.Errorf("read %s: it has no release", listFile)
	}
	return list[0], nil
}

// Version is a version of Alioth that can be installed.
type Version struct {
	// Chart is the folder of the chart.
	Chart string
	// Image is the image that the chart runs.
	Image images.Archive
}

// Builder makes versions of commits, and keeps them in the cache.
type Builder struct {
	// Root is the project's root folder, Cache the folder that keeps versions.
	Root, Cache string
	// Progress receives one line per step; nil discards them.
	Progress func(line string)
}

// Ensure returns the version of a commit, and makes it when it is missing.
func (b *Builder) Ensure(ctx context.Context, commit string) (Version, error) {
	commit, err := b.find(ctx, commit)
	if err != nil {
		return Version{}, err
	}
	name := "release-" + commit[:shortHash]
	cache := build.Cache{Dir: b.Cache, Progress: b.Progress}
	ref := Ref(commit)
	dir, err := cache.Ensure(
		name,
		name+"-"+runtime.Version(),
		func(dir string) error { return b.fill(ctx, commit, ref, dir) },
	)
	if err != nil {
		return Version{}, fmt.Errorf("build Alioth of commit %s: %w", commit, err)
	}
	image, err := images.Open(ref, filepath.Join(dir, archiveFile))
	if err != nil {
		return Version{}, fmt.Errorf("open Alioth of commit %s: %w", commit, err)
	}
	return Version{Chart: filepath.Join(dir, chartDir), Image: image}, nil
}

// Names below a folder of the cache.
const (
	chartDir    = "chart"
	archiveFile = "alioth.tar"
)

// shortHash is how many digits of a hash name a commit.
const shortHash = 12

// Ref returns the reference of the image of a commit.
func Ref(commit string) string {
	name, _, _ := strings.Cut(images.Alioth, ":dev")
	return name + ":" + commit[:shortHash]
}

// find returns the full hash of a commit that the history has.
func (b *Builder) find(ctx context.Context, commit string) (string, error) {
	if err := stamp.Clone(b.Root); errors.Is(err, stamp.ErrNoClone) {
		return "", fmt.Errorf("find commit %s: %w", commit, ErrNoHistory)
	}
	full, err := b.git(ctx, "rev-parse", "--verify", "--end-of-options", commit+"^{commit}")
	if err == nil {
		return full, nil
	}
	shallow, unread := b.git(ctx, "rev-parse", "--is-shallow-repository")
	switch {
	case unread != nil:
		return "", fmt.Errorf("find commit %s: %w", commit, unread)
	case shallow == "true":
		return "", fmt.Errorf("find commit %s: %w", commit, ErrNoHistory)
	}
	return "", fmt.Errorf("find commit %s: the clone is complete and lacks it: %w", commit, err)
}

// fill makes chart and image in a folder, by the sources of the commit alone.
func (b *Builder) fill(ctx context.Context, commit, ref, dir string) error {
	if b.Progress != nil {
		b.Progress("building Alioth of commit " + commit)
	}
	tree := filepath.Join(dir, "tree")
	if err := b.extract(ctx, commit, tree); err != nil {
		return err
	}
	made := exec.CommandContext(ctx, "go", "run", "-trimpath", "./test/cluster/cmd/lab", "images", images.Alioth)
	made.Dir = tree
	if out, err := made.CombinedOutput(); err != nil {
		return fmt.Errorf("build its image: %w\n%s", err, out)
	}
	archive, err := images.Open(images.Alioth, filepath.Join(tree, ".cluster", "images", "alioth.tar"))
	if err != nil {
		return err
	}
	if err := images.Rename(archive, ref, filepath.Join(dir, archiveFile)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(tree, "helm", "alioth"), filepath.Join(dir, chartDir)); err != nil {
		return fmt.Errorf("keep its chart: %w", err)
	}
	return os.RemoveAll(tree)
}

// extract writes the files of a commit into a new folder.
func (b *Builder) extract(ctx context.Context, commit, tree string) error {
	if err := os.Mkdir(tree, 0o755); err != nil {
		return fmt.Errorf("make a folder for the sources: %w", err)
	}
	pack := tree + ".tar"
	defer os.Remove(pack)
	if _, err := b.git(ctx, "archive", "--output", pack, commit); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-x", "-f", pack, "-C", tree).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack the sources: %w\n%s", err, out)
	}
	return nil
}

// git runs a git command in the project's root folder and returns its output.
func (b *Builder) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", b.Root}, args...)...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run git %s: %w: %s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
