// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bootunit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheUnitIsInstalledAndRemoved(t *testing.T) {
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
	for _, want := range []string{"ExecStart=/usr/local/bin/aliothctl state restore --dir /var/lib/alioth/nmstate\n", "kubelet.service"} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the unit lacks %q (%v):\n%s", want, err, text)
		}
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
