// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bootunit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBootUnit_InstallAndUninstall_WrittenAndRemoved(t *testing.T) {
	root := t.TempDir()
	u := Unit{Root: root, Binary: "/usr/local/bin/aliothctl", Dir: "/var/lib/alioth/nmstate"}
	if err := u.Install(); err == nil || !strings.Contains(err.Error(), "state restore") {
		t.Errorf("a host without systemd: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(root, "etc/systemd/system"), 0o700); err != nil {
		t.Fatal(err)
	}
	if u.Installed() {
		t.Error("it is installed at first")
	}
	for range 2 {
		if err := u.Install(); err != nil {
			t.Fatal(err)
		}
	}
	if !u.Installed() {
		t.Error("it is not installed")
	}
	text, err := os.ReadFile(filepath.Join(root, "etc/systemd/system", Name))
	if want := "ExecStart=/usr/local/bin/aliothctl state restore --dir /var/lib/alioth/nmstate\n"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the unit lacks %q (%v):\n%s", want, err, text)
	}
	if before := setting(string(text), "Before"); !slices.Contains(before, "kubelet.service") {
		t.Errorf("it starts before %v", before)
	}
	for range 2 {
		if err := u.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if u.Installed() {
		t.Error("it is still installed")
	}
}

// setting returns the words of a setting of a unit.
func setting(text, key string) []string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, key+"="); ok {
			return strings.Fields(value)
		}
	}
	return nil
}

// TestBootUnit_FromContainer_Found: the host's links with absolute paths do not lead to the
// container's files.
func TestBootUnit_FromContainer_Found(t *testing.T) {
	root := t.TempDir()
	u := Unit{Root: root, Binary: "/usr/local/bin/aliothctl", Dir: "/var/lib/alioth/nmstate"}
	if err := os.MkdirAll(filepath.Join(root, "etc/systemd/system"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := u.Install(); err != nil {
		t.Fatal(err)
	}
	replace := func(path, to string) {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	replace(u.wants(), "/etc/systemd/system/"+Name)
	if !u.Installed() {
		t.Error("it is not found")
	}
	replace(u.path(), "/dev/null")
	if u.Installed() {
		t.Error("it is masked, and seems to be installed")
	}
}
