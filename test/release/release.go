// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release builds everything that a release consists of into one folder. Two builds of a
// commit give the same bytes, in whatever folders: nothing depends on the time, the user or
// the paths of the machine (docs/install/releases.md).
package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/release/changelog"
	"github.com/alioth-net/alioth/test/release/stamp"
)

// Options are the input of Build.
type Options struct {
	// Root is the root folder of a clone of the repository.
	Root string
	// Out is the folder that gets one folder for each version.
	Out string
	// Tools builds helm and the program that writes SBOMs.
	Tools build.Builder
	// Progress receives one line per step.
	Progress func(line string)
}

// errModified is the error for a clone with changes.
var errModified = errors.New(
	"files differ from the commit, and a release is the contents of a commit: commit or stash them (git status)",
)

// builder builds one release.
type builder struct {
	Options
	stamp stamp.Stamp
	// dir is the folder that is filled.
	dir string
}

// Build builds the release of the commit that is checked out, and returns its folder. The
// folder appears when it is complete.
func Build(ctx context.Context, o Options) (dir string, err error) {
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return "", fmt.Errorf("find the root folder: %w", err)
	}
	o.Root = root
	at, err := stamp.OfRelease(ctx, o.Root)
	if err != nil {
		return "", err
	}
	if at.Modified {
		return "", errModified
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return "", fmt.Errorf("make the folder of releases: %w", err)
	}
	unfinished, err := os.MkdirTemp(o.Out, ".unfinished-")
	if err != nil {
		return "", fmt.Errorf("make the folder of the release: %w", err)
	}
	defer os.RemoveAll(unfinished)
	b := builder{Options: o, stamp: at, dir: unfinished}
	if err := b.fill(ctx); err != nil {
		return "", err
	}
	dir = filepath.Join(o.Out, version.Number)
	return dir, errors.Join(os.Chmod(unfinished, 0o755), os.RemoveAll(dir), os.Rename(unfinished, dir))
}

// fill makes the files. The checksums come last, because they are about all others.
func (b *builder) fill(ctx context.Context) error {
	for _, step := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"release notes and licence", b.texts},
		{"binaries", b.binaries},
		{"the image", b.image},
		{"the chart", b.chart},
		{"manifests", b.manifests},
		{"SBOMs", b.sboms},
		{"checksums", func(context.Context) error { return WriteSums(b.dir) }},
	} {
		b.Progress("writing " + step.title)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("write %s: %w", step.title, err)
		}
	}
	return nil
}

// texts writes the release notes and the licence.
func (b *builder) texts(context.Context) error {
	text, err := os.ReadFile(filepath.Join(b.Root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	notes, err := changelog.Notes(string(text), version.Number)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(b.Root, "LICENSE"))
	if err != nil {
		return err
	}
	return errors.Join(b.write("RELEASE_NOTES.md", notes), b.write("LICENSE", string(licence)))
}

func (b *builder) path(name string) string { return filepath.Join(b.dir, name) }

func (b *builder) write(name, text string) error {
	return os.WriteFile(b.path(name), []byte(text), 0o644)
}
