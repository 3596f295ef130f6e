// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/bench/scale"
)

func TestSave_Results_FilesWritten(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "scale")
	r := run{
		options: options{folder: folder}, machine: "Machine: a large one.",
		results: []scale.Result{{Size: scale.Size{Nodes: 10, Hollow: 6, Bouncers: 3, PodsPerNode: 2}}},
	}
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "table.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a large one", "10 nodes, full push", "no figure", "Bars that are missed"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	for name := range scale.Charts(r.results) {
		if _, err := os.Stat(filepath.Join(folder, name+".svg")); err != nil {
			t.Error(err)
		}
	}
	if err := r.print(io.Discard); err == nil {
		t.Error("a run that has measured nothing misses no bar")
	}
}

func TestPage_MissedBars_Told(t *testing.T) {
	if text := page("Machine.", "\n  row  \n", nil); !strings.Contains(text, "All bars are met") || !strings.Contains(text, "\n  row\n") {
		t.Errorf("none is missed: %q", text)
	}
	if text := page("Machine.", "row", []string{"too late"}); !strings.Contains(text, "- too late") || strings.Contains(text, "All bars are met") {
		t.Errorf("one is missed: %q", text)
	}
}

func TestDescribe_Machine_AllFieldsKnown(t *testing.T) {
	text, err := describe()
	if err != nil || strings.Contains(text, "(), ") || strings.Contains(text, ", 0 GiB") || !strings.Contains(text, "Linux") {
		t.Errorf("%q (%v)", text, err)
	}
}
