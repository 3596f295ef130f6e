// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/alioth-net/alioth/test/cluster/build"
)

// Kernel is an unpacked kernel.
type Kernel struct {
	// Image is the file that a machine boots.
	Image string
	// Modules is the folder with its modules and their lists.
	Modules string
}

// Fetch returns the kernel of a Debian release, by the release's name. It is downloaded
// once; to get a newer one, remove its folder from the cache.
func Fetch(ctx context.Context, cache build.Cache, release string) (Kernel, error) {
	name := "linux-" + release
	dir, err := cache.Ensure(name, name, func(dir string) error {
		if cache.Progress != nil {
			cache.Progress("fetching the kernel of Debian " + release)
		}
		return fetch(ctx, release, dir)
	})
	if err != nil {
		return Kernel{}, fmt.Errorf("fetch the kernel of Debian %s: %w", release, err)
	}
	return open(dir)
}

func open(dir string) (Kernel, error) {
	image, err := only(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil {
		return Kernel{}, err
	}
	modules, err := only(filepath.Join(dir, "lib", "modules", "*"))
	return Kernel{Image: image, Modules: modules}, err
}

// only returns the one file of a pattern.
func only(pattern string) (string, error) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("find %s: %d files, %w", pattern, len(files), err)
	}
	return files[0], nil
}

// fetch downloads and unpacks a kernel into dir.
func fetch(ctx context.Context, release, dir string) error {
	return inApt(ctx, release, func(apt apt) error {
		file, err := apt.downloadKernel(ctx)
		if err != nil {
			return err
		}
		return unpack(ctx, file, dir)
	})
}

// unpack lays out dir as depmod expects it, with the modules in lib. usr/lib is a link
// to it, for newer packages.
func unpack(ctx context.Context, file, dir string) error {
	for _, link := range []string{"lib", "usr"} {
		if err := os.MkdirAll(filepath.Join(dir, link), 0o755); err != nil {
			return fmt.Errorf("make a folder for the kernel: %w", err)
		}
	}
	if err := os.Symlink("../lib", filepath.Join(dir, "usr", "lib")); err != nil {
		return fmt.Errorf("make a folder for the kernel: %w", err)
	}
	// tar keeps a link to a folder where the package has a folder.
	pipe := `dpkg-deb --fsys-tarfile "$1" | tar --extract --keep-directory-symlink --no-same-owner --directory="$2" --wildcards './boot/vmlinuz-*' '*/modules/*'`
	if _, err := output(ctx, dir, "/bin/bash", "-o", "pipefail", "-c", pipe, "unpack", file, dir); err != nil {
		return err
	}
	kernel, err := open(dir)
	if err != nil {
		return err
	}
	_, err = output(ctx, dir, "depmod", "-b", dir, filepath.Base(kernel.Modules))
	return err
}
