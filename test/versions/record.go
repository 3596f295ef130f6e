// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// The files of a record, below the project's root folder.
var (
	recordFile = filepath.Join("docs", "install", "tested.yaml")
	pageFile   = filepath.Join("docs", "install", "requirements.md")
)

// Lines of the page around the table.
const (
	tableBegin = "<!-- The table is made from tested.yaml by: make test-versions -->"
	tableEnd   = "<!-- End of the table -->"
)

// record is the last run of each combination.
type record struct {
	Runs []run `json:"runs"`
}

// run is one run of a combination. The versions come from the cluster itself; they are "" if its
// lab failed before that.
type run struct {
	Name       string `json:"name"`
	Kubernetes string `json:"kubernetes"`
	Kubelet    string `json:"kubelet"`
	Runtime    string `json:"runtime"`
	Kernel     string `json:"kernel"`
	// Date is the day of the run, in UTC.
	Date string `json:"date"`
	// Commit is the tested commit, with " and changes" if the work tree differed from it.
	Commit string `json:"commit"`
	// Passed is how many tests passed.
	Passed int `json:"passed"`
	// Failed names the failed tests.
	Failed []string `json:"failed,omitempty"`
}

func (r run) result() string {
	if len(r.Failed) > 0 {
		return fmt.Sprintf("%d tests passed; failed: %s", r.Passed, strings.Join(r.Failed, ", "))
	}
	return fmt.Sprintf("%d tests passed", r.Passed)
}

// readRecord reads the record; a missing file is an empty one.
func readRecord(root string) (record, error) {
	var r record
	raw, err := os.ReadFile(filepath.Join(root, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = yaml.UnmarshalStrict(raw, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read the record of tested versions: %w", err)
	}
	return r, nil
}

// with returns the record with a run in the place of the last run of its combination, in the order
// of combinations. Runs of other names are dropped.
func (r record) with(last run) record {
	var next record
	for _, c := range combinations() {
		if c.name == last.Name {
			next.Runs = append(next.Runs, last)
		} else if old, ok := r.last(c.name); ok {
			next.Runs = append(next.Runs, old)
		}
	}
	return next
}

// write writes the record, and the table in the page.
func (r record) write(root string) error {
	raw, err := yaml.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record of tested versions: %w", err)
	}
	page, err := os.ReadFile(filepath.Join(root, pageFile))
	if err != nil {
		return fmt.Errorf("read the page with the table: %w", err)
	}
	changed, err := replaceTable(string(page), r.table())
	if err != nil {
		return err
	}
	head := "# Written by: make test-versions. One entry for each combination: its last run.\n"
	if err := os.WriteFile(filepath.Join(root, recordFile), append([]byte(head), raw...), 0o644); err != nil {
		return fmt.Errorf("write the record of tested versions: %w", err)
	}
	if err := os.WriteFile(filepath.Join(root, pageFile), []byte(changed), 0o644); err != nil {
		return fmt.Errorf("write the page with the table: %w", err)
	}
	return nil
}

// last returns the last run of a combination; false if it was never run.
func (r record) last(name string) (run, bool) {
	i := slices.IndexFunc(r.Runs, func(run run) bool { return run.Name == name })
	if i < 0 {
		return run{}, false
	}
	return r.Runs[i], true
}

// table returns the record in Markdown. A combination without a run has a row too, so that nobody
// takes it for tested.
func (r record) table() string {
	var b strings.Builder
	b.WriteString("| API server | kubelet | container runtime | Linux | date | commit | result |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, c := range combinations() {
		run, ok := r.last(c.name)
		if !ok {
			fmt.Fprintf(&b, "| %s | | | | not run yet |\n", c.planned())
			continue
		}
		versions := c.planned()
		if run.Kubernetes != "" {
			versions = fmt.Sprintf("%s | %s | %s", run.Kubernetes, run.Kubelet, strings.Replace(run.Runtime, "://", " ", 1))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", versions, run.Kernel, run.Date, run.Commit, run.result())
	}
	return b.String()
}

// planned returns the cells of the versions of a combination that no cluster has told.
func (c combination) planned() string {
	return fmt.Sprintf("%s | %s | containerd %s", c.Kubernetes, cmp.Or(c.Kubelet, c.Kubernetes), cmp.Or(c.Containerd, "2"))
}

// replaceTable returns the page with another table.
func replaceTable(page, table string) (string, error) {
	before, rest, ok := strings.Cut(page, tableBegin+"\n")
	_, after, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		return "", fmt.Errorf("find the table in %s: there is no line %q or %q", pageFile, tableBegin, tableEnd)
	}
	return before + tableBegin + "\n" + table + tableEnd + after, nil
}
