// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images builds the container images of the lab without a container
// engine or a registry: static binaries from Go, put into an archive that
// containerd imports.
package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/release/stamp"
)

// References of the images that the lab builds.
const (
	Alioth   = "docker.io/alioth/alioth:dev"
	TestTool = "docker.io/alioth/testtool:dev"
	Pause    = "docker.io/alioth/pause:dev"
	CoreDNS  = "docker.io/alioth/coredns:dev"
	// BusyBox is the public image that the manifests of docs/examples name. The lab has no
	// registry, so Debian's busybox is on its nodes under that name.
	BusyBox = "docker.io/library/busybox:1.37"
)

// busybox is where Debian's busybox-static puts its binary.
const busybox = "/bin/busybox"

// Builder builds images of one work tree.
type Builder struct {
	// Root is the project's root folder.
	Root string
	// Out receives one archive per image, and the binaries in them.
	Out string
	// CoreDNS is the CoreDNS binary.
	CoreDNS string
	// Progress receives one line per image; nil discards them.
	Progress func(line string)
	// Estimate counts the compilations; it may be nil.
	Estimate *build.Estimate
}

// Archive is an image on disk.
type Archive struct {
	// Ref is the image's full reference.
	Ref string
	// Path is the archive, in the format of `docker save`.
	Path string
	// Digest changes exactly when the image does.
	Digest string
}

// Build returns the archive of the image called ref. The archive is written
// again only when its contents change.
func (b *Builder) Build(ctx context.Context, ref string) (Archive, error) {
	c, err := b.contents(ctx, ref)
	if err != nil {
		return Archive{}, fmt.Errorf("build the image %s: %w", ref, err)
	}
	digest, err := c.digest()
	if err != nil {
		return Archive{}, fmt.Errorf("build the image %s: %w", ref, err)
	}
	archive := Archive{Ref: ref, Path: filepath.Join(b.Out, shortName(ref)+".tar"), Digest: digest}
	if recorded, err := os.ReadFile(archive.Path + ".digest"); err == nil && string(recorded) == digest {
		if _, err := os.Stat(archive.Path); err == nil {
			return archive, nil
		}
	}
	if b.Progress != nil {
		b.Progress("writing the image " + ref)
	}
	if err := c.write(archive); err != nil {
		return Archive{}, fmt.Errorf("build the image %s: %w", ref, err)
	}
	return archive, nil
}

// contents compiles the programs of an image.
func (b *Builder) contents(ctx context.Context, ref string) (*contents, error) {
	switch ref {
	case Alioth:
		return b.alioth(ctx)
	case TestTool:
		return b.testTool(ctx)
	case Pause:
		dir, err := b.compile(ctx, "pause", stamp.Stamp{}, "./test/images/pause")
		return newContents("/pause").file(filepath.Join(dir, "pause"), "pause"), err
	case CoreDNS:
		return newContents("/coredns").file(b.CoreDNS, "coredns"), nil
	case BusyBox:
		return withBusyBox(ctx, newContents(""))
	}
	return nil, fmt.Errorf(
		"nothing is known about it: use one of %s, %s, %s, %s, %s",
		Alioth,
		TestTool,
		Pause,
		CoreDNS,
		BusyBox,
	)
}

func (b *Builder) alioth(ctx context.Context) (*contents, error) {
	names := []string{"alioth-operator", "alioth-cnid", "alioth"}
	// The command line client is for people and not a part of the running product.
	if b.hasSources("cmd/aliothctl") {
		names = append(names, "aliothctl")
	}
	var packages []string
	for _, name := range names {
		packages = append(packages, "./cmd/"+name)
	}
	// A stamp of the sources alone keeps the image when a commit changes other files.
	of, err := stamp.OfSources(ctx, b.Root)
	if err != nil {
		return nil, err
	}
	dir, err := b.compile(ctx, "alioth", of, packages...)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, name := range names {
		files[name] = filepath.Join(dir, name)
	}
	return product(files), nil
}

// product returns the image of the product with the files of its programs by their names.
func product(files map[string]string) *contents {
	c := newContents("").dir("tmp", 0o1777)
	for name, file := range files {
		c.file(file, "usr/local/bin/"+name)
	}
	return c
}

func (b *Builder) testTool(ctx context.Context) (*contents, error) {
	dir, err := b.compile(ctx, "testtool", stamp.Stamp{}, "./test/testtool")
	if err != nil {
		return nil, err
	}
	return withBusyBox(ctx, newContents("/testtool").file(filepath.Join(dir, "testtool"), "testtool"))
}

// withBusyBox adds Debian's busybox to an image, with a link for each of its commands.
func withBusyBox(ctx context.Context, c *contents) (*contents, error) {
	out, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the applets of %s (Debian package busybox-static): %w", busybox, err)
	}
	c.dir("tmp", 0o1777).file(busybox, "bin/busybox")
	for _, applet := range strings.Fields(string(out)) {
		if applet != "busybox" {
			c.link("bin/"+applet, "busybox")
		}
	}
	return c, nil
}

// compile builds static binaries of main packages of this module, stamped with a commit,
// and returns the folder with them.
func (b *Builder) compile(
	ctx context.Context,
	image string,
	of stamp.Stamp,
	packages ...string,
) (dir string, err error) {
	for _, pkg := range packages {
		if !b.hasSources(pkg) {
			return "", fmt.Errorf("its program %s is not in this work tree", pkg)
		}
	}
	dir = filepath.Join(b.Out, "bin", image)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for binaries: %w", err)
	}
	// With -trimpath the compiler's cache is the same as the cache of `make`, from any folder.
	args := append([]string{"-trimpath", "-ldflags", "-s -w " + of.Flags(), "-o", dir + "/"}, packages...)
	job := build.Job{Dir: b.Root, Title: "the programs of the image " + image, Progress: b.Progress, Estimate: b.Estimate}
	if image == shortName(Alioth) { // the other programs of the product share its packages
		job.Share = build.ProductShare
	}
	if err := job.Build(ctx, args...); err != nil {
		return "", fmt.Errorf("compile %s: %w", strings.Join(packages, " "), err)
	}
	return dir, nil
}

// Program returns the path of a program of an image that has been built.
func (b *Builder) Program(ref, name string) string {
	return filepath.Join(b.Out, "bin", shortName(ref), name)
}

// Available reports whether the work tree has the sources of the image ref.
func (b *Builder) Available(ref string) bool {
	switch ref {
	case Alioth:
		return b.hasSources("cmd/alioth-operator") && b.hasSources("cmd/alioth-cnid") && b.hasSources("cmd/alioth")
	case TestTool:
		return b.hasSources("test/testtool")
	}
	return true
}

// hasSources reports whether a folder of the work tree holds Go files.
func (b *Builder) hasSources(folder string) bool {
	sources, err := filepath.Glob(filepath.Join(b.Root, folder, "*.go"))
	return err == nil && len(sources) > 0
}

// shortName turns docker.io/alioth/NAME:TAG into NAME.
func shortName(ref string) string {
	base := ref[strings.LastIndexByte(ref, '/')+1:]
	name, _, _ := strings.Cut(base, ":")
	return name
}

// Describe describes an archive of another program. The path of the archive stands for its
// reference.
func Describe(path string) (Archive, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Archive{}, fmt.Errorf("find the image archive: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return Archive{}, fmt.Errorf("open the image archive: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return Archive{}, fmt.Errorf("read the image archive: %w", err)
	}
	return Archive{Ref: path, Path: path, Digest: hex.EncodeToString(h.Sum(nil))}, nil
}
