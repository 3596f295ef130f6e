// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// row is a row of the table of maps: name and number of rows.
var row = regexp.MustCompile("(?m)^\\| `(alioth_[a-z_]+)` \\| ([0-9,]+) \\|")

// TestCapacityPage_Limits_EqualMaps compares docs/operate/capacity.md with the programs.
func TestCapacityPage_Limits_EqualMaps(t *testing.T) {
	spec, err := bpf.LoadAlioth()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/operate/capacity.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := row.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 8 {
		t.Errorf("the page has %d maps, want 8 or more", len(rows))
	}
	for _, found := range rows {
		most, err := strconv.ParseUint(strings.ReplaceAll(found[2], ",", ""), 10, 32)
		if m := spec.Maps[found[1]]; err != nil || m == nil || uint64(m.MaxEntries) != most {
			t.Errorf("the page has %s rows of %s: %v, %v", found[2], found[1], m, err)
		}
	}
}
