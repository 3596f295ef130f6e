// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package containers_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/alioth-net/alioth/cnid/nodeipam/containers"
)

func TestContainersAreFoundByTheirCgroups(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{
		"kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-aaaa1111.scope/init.scope/bbbb2222",
		"kubepods-pod2.slice/crio-cccc3333.scope", // of the class Guaranteed
		"besteffort/pod3/dddd4444",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "eeee5555"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	runs, err := containers.In(root)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{
		"aaaa1111": true, "cccc3333": true, "dddd4444": true,
		"bbbb2222": false, // of the container's own making
		"eeee5555": false, // no directory
		"ffff6666": false,
	} {
		if got := runs(id); got != want {
			t.Errorf("%s runs: %v, want %v", id, got, want)
		}
	}
	if _, err := containers.In(filepath.Join(root, "none")); err == nil {
		t.Error("a missing cgroup is taken for one without containers")
	}
}
