// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package waits_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// bare is a limit of five seconds or more that is not multiplied. Shorter ones are for what is
// not to come.
var bare = regexp.MustCompile(`(context\.WithTimeout\([^\n]*, *|time\.After\(|time\.NewTimer\(|time\.Now\(\)\.Add\()(?:([0-9]+) ?\* ?)?time\.(Second|Minute|Hour)\)`)

// idles is a test that is about a minute in which nothing happens.
const idles = "cnid/nmstate/handler/figures_test.go"

// TestNoTestWaitsForABareLimit finds limits in tests that would be too short on a slow machine.
// Tests with a clock of their own (synctest) wait for no machine.
func TestNoTestWaitsForABareLimit(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, idles) {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), `"testing/synctest"`) {
			return err
		}
		for at, line := range strings.Split(string(text), "\n") {
			if parts := bare.FindStringSubmatch(line); parts != nil && (parts[3] != "Second" || atLeast(parts[2], 5)) {
				t.Errorf("%s:%d: a limit that the machine does not multiply: use package test/waits: %s", path, at+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("looked at %d files of tests alone", files)
	}
}

func atLeast(number string, least int) bool {
	n, err := strconv.Atoi(number)
	return err == nil && n >= least
}
