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

// FetchPrograms returns a folder with a package of a Debian release and all that it
// depends on, the C library included: its programs run on any release of Debian. It is
// downloaded once; to get a newer one, remove its folder from the cache.
func FetchPrograms(ctx context.Context, cache build.Cache, release, name string) (string, error) {
	key := name + "-" + release
	dir, err := cache.Ensure(key, key, func(dir string) error {
		if cache.Progress != nil {
			cache.Progress("fetching " + name + " of Debian " + release)
		}
		return inApt(ctx, release, func(apt apt) error {
			files, err := apt.downloadAll(ctx, name)
			if err != nil {
				return err
			}
			return unpackAll(ctx, files, dir)
		})
	})
	if err != nil {
		return "", fmt.Errorf("fetch %s of Debian %s: %w", name, release, err)
	}
	return dir, nil
}

// inApt runs fn with an apt for one release, which is gone afterwards.
func inApt(ctx context.Context, release string, fn func(apt) error) error {
	work, err := os.MkdirTemp("", "alioth-apt-")
	if err != nil {
		return fmt.Errorf("make a folder for apt: %w", err)
	}
	defer os.RemoveAll(work)
	repository, err := repository(ctx, work)
	if err != nil {
		return err
	}
	apt, err := newApt(work, repository, release)
	if err != nil {
		return err
	}
	if _, err := apt.run(ctx, "apt-get", "update"); err != nil {
		return err
	}
	return fn(apt)
}

// downloadAll fetches a package and its dependencies, and returns their files. For this apt no
// package is installed, so it leaves none out.
func (a apt) downloadAll(ctx context.Context, name string) ([]string, error) {
	if _, err := a.run(ctx, "apt-get", "install", "--download-only", "--yes", "--no-install-recommends", name); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(a.dir, "cache", "archives", "*.deb"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("find the packages that apt-get has fetched for %s: %d files, %w", name, len(files), err)
	}
	return files, nil
}

// unpackAll lays out dir as a merged /usr with the files that programs need to run.
func unpackAll(ctx context.Context, files []string, dir string) error {
	for _, folder := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(dir, "usr", folder), 0o755); err != nil {
			return fmt.Errorf("make a folder for programs: %w", err)
		}
		if err := os.Symlink("usr/"+folder, filepath.Join(dir, folder)); err != nil {
			return fmt.Errorf("make a folder for programs: %w", err)
		}
	}
	const pipe = `dpkg-deb --fsys-tarfile "$1" | tar --extract --keep-directory-symlink --no-same-owner --directory="$2" --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale'`
	for _, file := range files {
		if _, err := output(ctx, dir, "/bin/bash", "-o", "pipefail", "-c", pipe, "unpack", file, dir); err != nil {
			return err
		}
	}
	return nil
}
