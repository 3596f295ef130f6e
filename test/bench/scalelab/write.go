// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/bench/scale"
)

// run has the results so far.
type run struct {
	options
	began time.Time
	// machine describes the machine and its load before the run.
	machine string
	results []scale.Result
}

// save writes the curves and the table into the folder.
func (r *run) save() error {
	if r.folder == "" {
		return nil
	}
	if err := os.MkdirAll(r.folder, 0o755); err != nil {
		return fmt.Errorf("make the folder of the curves: %w", err)
	}
	var table strings.Builder
	if err := scale.Print(&table, r.results); err != nil {
		return err
	}
	conditions := fmt.Sprintf("%s The run took %.0f s.", r.machine, time.Since(r.began).Seconds())
	files := map[string]string{"table.md": page(conditions, table.String(), scale.Missed(r.results))}
	for name, chart := range scale.Charts(r.results) {
		files[name+".svg"] = chart.SVG()
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(r.folder, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write a curve or the table: %w", err)
		}
	}
	return nil
}

// page returns the table as a document.
func page(conditions, table string, missed []string) string {
	verdict := "All bars are met, at each number of nodes."
	if len(missed) > 0 {
		verdict = "Bars that are missed:\n- " + strings.Join(missed, "\n- ")
	}
	return fmt.Sprintf(
		"# Figures of the scale lab\nWritten by `make bench-scale`. [README.md](README.md) explains the rows.\n\n%s\n\n%s\n\n```\n%s\n```\n",
		conditions,
		verdict,
		strings.Trim(trimmed(table), "\n"),
	)
}

// trimmed returns a text without blanks at the ends of its lines.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// describe describes the machine and its load.
func describe() (string, error) {
	var system unix.Sysinfo_t
	if err := unix.Sysinfo(&system); err != nil {
		return "", fmt.Errorf("read the size of the memory: %w", err)
	}
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil {
		return "", fmt.Errorf("read the kernel's release: %w", err)
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", fmt.Errorf("read the load: %w", err)
	}
	model, err := processor()
	if err != nil {
		return "", err
	}
	first, _, _ := bytes.Cut(load, []byte(" "))
	release, _, _ := bytes.Cut(kernel.Release[:], []byte{0})
	return fmt.Sprintf("Machine: %d processors (%s), %d GiB of memory, Linux %s. Load before the run: %s.",
		runtime.NumCPU(), model, (system.Totalram*uint64(system.Unit)+1<<29)>>30, release, first), nil
}

// processor returns the name of the processors.
func processor() (string, error) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", fmt.Errorf("read the name of the processors: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value), nil
		}
	}
	return runtime.GOARCH, nil
}
