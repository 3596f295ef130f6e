// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"io/fs"
	"path"
	"strings"
)

// Matches compares a package with a pattern as Go does: "./a/..." has a and all below it.
func Matches(pattern, path string) bool {
	above, all := strings.CutSuffix(pattern, "/...")
	return path == above || all && strings.HasPrefix(path, above+"/")
}

// Enter lets a walk skip the folders without packages of the module: a folder with a go.mod of
// its own is another module.
func Enter(tree fs.FS, dir string, entry fs.DirEntry) error {
	if dir == "." {
		return nil
	}
	if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" {
		return fs.SkipDir
	}
	if _, err := fs.Stat(tree, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}
