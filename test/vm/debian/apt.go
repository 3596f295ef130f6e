// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package debian fetches kernels and programs of Debian's releases, whatever
// release this machine has.
package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// metapackage always depends on a release's newest kernel.
const metapackage = "linux-image-amd64"

// keyring holds the keys of all of Debian's releases, those to come included:
// it is updated ahead of each.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// apt runs apt commands with sources and state of their own, so that the machine's are left alone.
// Downloads are verified against keyring.
type apt struct{ dir string }

// newApt prepares an apt for one release, in a folder that is empty.
func newApt(dir, repository, release string) (apt, error) {
	a := apt{dir}
	for _, sub := range []string{"sources", "state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return a, fmt.Errorf("make a folder for apt: %w", err)
		}
	}
	sources := filepath.Join(dir, "sources", "debian.sources")
	if err := os.WriteFile(sources, []byte(source(repository, release)), 0o644); err != nil {
		return a, fmt.Errorf("write apt's sources: %w", err)
	}
	return a, nil
}

// source returns an entry of sources.list(5), format DEB822.
func source(repository, release string) string {
	return fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n", repository, release, keyring)
}

// options keep apt in its folder, and off packages that a kernel does not need.
func (a apt) options() []string {
	var options []string
	for _, o := range []string{
		"Dir::State=" + filepath.Join(a.dir, "state"),
		"Dir::State::status=/dev/null",
		"Dir::Cache=" + filepath.Join(a.dir, "cache"),
		"Dir::Etc::sourcelist=/dev/null",
		"Dir::Etc::sourceparts=" + filepath.Join(a.dir, "sources"),
		"Acquire::Languages=none",
		"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		"APT::Architecture=amd64",
		// apt's own user can't write here.
		"APT::Sandbox::User=root",
	} {
		options = append(options, "-o", o)
	}
	return options
}

func (a apt) run(ctx context.Context, command string, args ...string) (string, error) {
	return output(ctx, a.dir, command, append(a.options(), args...)...)
}

// downloadKernel fetches the release's kernel and returns the package's file.
func (a apt) downloadKernel(ctx context.Context) (string, error) {
	depends, err := a.run(ctx, "apt-cache", "depends", metapackage)
	if err != nil {
		return "", err
	}
	name, err := kernelPackage(depends)
	if err != nil {
		return "", err
	}
	if _, err := a.run(ctx, "apt-get", "download", name); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(a.dir, "*.deb"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("find the package %s that apt-get has fetched: %v, %w", name, files, err)
	}
	return files[0], nil
}

// kernelPackage finds in the output of `apt-cache depends` which kernel the
// metapackage stands for.
func kernelPackage(depends string) (string, error) {
	for line := range strings.Lines(depends) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok {
			return "linux-image-" + name, nil
		}
	}
	return "", fmt.Errorf("find the kernel that %s stands for: apt-cache says %q", metapackage, depends)
}

// ErrNoArchive is returned where this machine's apt has no source of Debian's packages.
var ErrNoArchive = errors.New("apt knows no Debian archive: add one to /etc/apt/sources.list.d")

// repository returns where this machine gets Debian's packages from. The lists of apt have its
// sources. If the lists are missing, they are fetched into a folder of work, and the machine's own
// stay as they are.
func repository(ctx context.Context, work string) (string, error) {
	uri, err := askRepository(ctx)
	if !errors.Is(err, ErrNoArchive) {
		return uri, err
	}
	lists := filepath.Join(work, "lists")
	if err := os.MkdirAll(filepath.Join(lists, "partial"), 0o755); err != nil {
		return "", fmt.Errorf("make a folder for apt: %w", err)
	}
	options := []string{"-o", "Dir::State::lists=" + lists, "-o", "APT::Sandbox::User=root"}
	if _, err := output(ctx, work, "apt-get", append(options, "update")...); err != nil {
		return "", err
	}
	return askRepository(ctx, options...)
}

func askRepository(ctx context.Context, options ...string) (string, error) {
	targets, err := output(
		ctx,
		"",
		"apt-get",
		append(options, "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages")...)
	if err != nil {
		return "", err
	}
	return debianRepository(targets)
}

// debianRepository picks Debian's main archive from apt's list of sources. Other archives, such as
// Debian's own for security, have other labels.
func debianRepository(targets string) (string, error) {
	for line := range strings.Lines(targets) {
		if uri, ok := strings.CutPrefix(strings.TrimSpace(line), "Debian|Debian|"); ok {
			return uri, nil
		}
	}
	return "", ErrNoArchive
}

func output(ctx context.Context, dir, command string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w\n%s", command, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}
