// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/bench/scale"
)

func TestTheTableTellsWhichBarsAreMissed(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "scale")
	results := []scale.Result{{Size: scale.Size{Nodes: 10, Hollow: 6, Bouncers: 3, PodsPerNode: 2}}}
	for name, tt := range map[string]struct {
		missed   []string
		want     string
		unwanted string
	}{
		"none": {nil, "All bars are met", "missed"},
		"one":  {[]string{"10 nodes: too late"}, "- 10 nodes: too late", "All bars are met"},
	} {
		if err := write(folder, "Machine: a large one.", "\n  row  \n", tt.missed, results); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(folder, "table.md"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), tt.want) || strings.Contains(string(text), tt.unwanted) || !strings.Contains(string(text), "a large one") || !strings.Contains(string(text), "\n  row\n") {
			t.Errorf("%s: %q", name, text)
		}
	}
	for name := range scale.Charts(results) {
		if _, err := os.Stat(filepath.Join(folder, name+".svg")); err != nil {
			t.Error(err)
		}
	}
}

func TestTheMachineIsDescribed(t *testing.T) {
	text, err := describe()
	if err != nil || strings.Contains(text, "(), ") || strings.Contains(text, ", 0 GiB") || !strings.Contains(text, "Linux") {
		t.Errorf("%q (%v)", text, err)
	}
}
