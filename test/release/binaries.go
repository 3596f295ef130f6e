// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/images"
)

// Architectures of the binaries and of the image.
func architectures() []string { return []string{"amd64", "arm64"} }

// binary names the binary of a program for an architecture.
func binary(program, arch string) string { return program + "-linux-" + arch }

// programs returns the names of the programs: the folders below cmd with a main.go.
func (b *builder) programs() (names []string, err error) {
	mains, err := filepath.Glob(filepath.Join(b.Root, "cmd", "*", "main.go"))
	for _, file := range mains {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}
	return names, err
}

// binaries compiles each program for each architecture.
func (b *builder) binaries(ctx context.Context) error {
	names, err := b.programs()
	if err != nil {
		return err
	}
	for _, arch := range architectures() {
		for _, name := range names {
			b.Progress(fmt.Sprintf("compiling %s for %s", name, arch))
			if err := b.compile(ctx, name, arch); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) compile(ctx context.Context, name, arch string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags", "-s -w "+b.stamp.Flags(), "-o", b.path(binary(name, arch)), "./cmd/"+name)
	cmd.Dir = b.Root
	// Other values of the environment would be in the binaries.
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0",
		"GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s for %s: %w\n%s", name, arch, err, out)
	}
	return nil
}

// ImageDigest is the file with the digest of the image for all architectures.
const ImageDigest = "image-digest.txt"

// image writes the image of all architectures as one archive.
func (b *builder) image(context.Context) error {
	names, err := b.programs()
	if err != nil {
		return err
	}
	release := images.Release{
		Ref: "docker.io/alioth/alioth:" + version.Number, Created: b.stamp.Time, Programs: map[string]map[string]string{},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Alioth",
			"org.opencontainers.image.version":  version.Number,
			"org.opencontainers.image.revision": b.stamp.Commit,
			"org.opencontainers.image.licenses": "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)",
			"org.opencontainers.image.source":   "https://github.com/alioth-net/alioth",
		},
	}
	for _, arch := range architectures() {
		release.Programs[arch] = map[string]string{}
		for _, name := range names {
			release.Programs[arch][name] = b.path(binary(name, arch))
		}
	}
	digest, err := release.Write(b.path("alioth-" + version.Number + "-image.oci.tar"))
	if err != nil {
		return err
	}
	return b.write(ImageDigest, digest+"\n")
}

// sboms lists the modules in each binary, with their licences. The program reads them out of the
// binary itself, so the list has exactly the linked modules.
func (b *builder) sboms(ctx context.Context) error {
	tool, err := b.Tools.Ensure(ctx, build.SBOM())
	if err != nil {
		return err
	}
	names, err := b.programs()
	if err != nil {
		return err
	}
	for _, arch := range architectures() {
		for _, name := range names {
			file := b.path(binary(name, arch))
			cmd := exec.CommandContext(ctx, filepath.Join(tool, "cyclonedx-gomod"), "bin", "-json", "-noserial", "-notimestamp",
				"-licenses", "-std", "-version", "v"+version.Number, "-output", file+".cdx.json", file)
			// The modules are there since the binary was compiled. No registry has the main module.
			cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("list the modules of %s: %w\n%s", filepath.Base(file), err, out)
			}
		}
	}
	return nil
}
