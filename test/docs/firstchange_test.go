// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// replacing is a command that replaces a text in a file of the work tree.
var replacing = regexp.MustCompile(`(?m)^sed -i 's/([^/]*)/[^/]*/' (\S+)$`)

// TestContributing_FirstChange_TextsExist: each file has the text that the page replaces in it.
// Without the text, sed succeeds and changes nothing.
func TestContributing_FirstChange_TextsExist(t *testing.T) {
	_, byPath := read(t)
	found := 0
	for _, block := range byPath["CONTRIBUTING.md"].Blocks {
		for _, command := range replacing.FindAllStringSubmatch(block.Text.Text, -1) {
			found++
			content, err := os.ReadFile(filepath.Join(root, command[2]))
			if err != nil || !strings.Contains(string(content), command[1]) {
				t.Errorf("%s does not have %q: %v", command[2], command[1], err)
			}
		}
	}
	if found != 2 {
		t.Errorf("the page replaces %d texts, want 2", found)
	}
}
