// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cgrouptest puts a test under the programs of a cgroup.
package cgrouptest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Join moves the test's process into a cgroup, a child of the root's, until the test ends.
func Join(t testing.TB, dir string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	home := ""
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			home = path
		}
	}
	root := filepath.Dir(dir)
	pid := []byte(strconv.Itoa(os.Getpid()))
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), pid, 0); err != nil {
		t.Fatalf("join cgroup: %v", err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(filepath.Join(root, home, "cgroup.procs"), pid, 0); err != nil {
			t.Errorf("leave cgroup: %v", err)
		}
	})
}
