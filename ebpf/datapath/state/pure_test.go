// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"os/exec"
	"strings"
	"testing"
)

// Neither this package nor what plans by it links what changes a kernel.
func TestNothingHereLeadsToAKernel(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("list packages: %v: %s", err, out)
	}
	for path := range strings.Lines(string(out)) {
		for _, effects := range []string{"cilium/ebpf", "netlink", "golang.org/x/sys"} {
			if strings.Contains(path, effects) {
				t.Errorf("%s is linked", strings.TrimSpace(path))
			}
		}
	}
}
