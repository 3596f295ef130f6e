// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// licences runs `make licenses`, which reads the module cache and no network.
func licences(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	// A result in Go's cache depends on the files that this process has opened.
	for _, file := range []string{"go.mod", "go.sum", "Makefile", "test/tools/go.mod", "test/tree/licences.tmpl"} {
		if _, err := os.ReadFile(filepath.Join(root, file)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("make", append([]string{"-C", root, "--no-print-directory", "licenses"}, arguments...)...)
	cmd.Env = append(cmd.Environ(), "GOPROXY=off", "http_proxy=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestLicences_Dependencies_Allowed(t *testing.T) {
	out, err := licences(t)
	if err != nil {
		t.Fatalf("%v: a dependency that is not in the list of the Makefile needs another dependency, or a decision in docs/design:\n%s", err, out)
	}
	for _, want := range []string{"MIT            github.com/cilium/ebpf\n", "MPL-2.0        github.com/hashicorp/go-memdb\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the list lacks %q:\n%s", want, out)
		}
	}
}

func TestLicences_NotAllowed_Refused(t *testing.T) {
	out, err := licences(t, "ALLOWED_LICENCES=Apache-2.0,BSD-2-Clause,BSD-3-Clause,ISC,MIT")
	if err == nil || !strings.Contains(out, "Not allowed license 'MPL-2.0' found for library 'github.com/hashicorp/go-memdb") {
		t.Errorf("a list without MPL-2.0 is accepted: %v\n%s", err, out)
	}
}
