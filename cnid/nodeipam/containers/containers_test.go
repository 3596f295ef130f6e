// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package containers_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/alioth-net/alioth/cnid/nodeipam/containers"
)

// nodeOf makes the cgroups of pods of a node, and reads them.
func nodeOf(t *testing.T, dirs ...string) containers.Node {
	t.Helper()
	root := t.TempDir()
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "eeee5555"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	node, err := containers.On(root)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func TestContainers_Cgroups_Found(t *testing.T) {
	node := nodeOf(t,
		"kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-aaaa1111.scope/init.scope/bbbb2222",
		"kubepods-pod2.slice/crio-cccc3333.scope/9999aaaa", // of the class Guaranteed
		"besteffort/pod3/dddd4444", "kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod4.slice/cri-containerd-8888bbbb.scope",
	)
	for id, want := range map[string]bool{
		"aaaa1111": true, "cccc3333": true, "dddd4444": true, "8888bbbb": true,
		"bbbb2222": false, "9999aaaa": false, // of the container's own making
		"eeee5555": false, // no directory
		"ffff6666": false,
	} {
		if got := node.Has("another", id); got != want {
			t.Errorf("container %s is there: %v, want %v", id, got, want)
		}
	}
	if _, err := containers.On(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing cgroup is taken for one without containers")
	}
}

// A runtime that makes no cgroup for a sandbox leaves the pod's, which the kubelet makes.
func TestContainers_SandboxWithoutCgroup_PodFound(t *testing.T) {
	const slice, folder, guaranteed, gone = "0b6f-11", "0b6f-22", "0b6f-33", "0b6f-44"
	node := nodeOf(t,
		"kubepods-burstable.slice/kubepods-burstable-pod0b6f_11.slice/cri-containerd-aaaa1111.scope/pod"+gone,
		"besteffort/pod"+folder, "pod"+guaranteed+"/dddd4444/pod"+gone, "kubepods-besteffort.slice/kubepods-besteffort-pod7.slice/x",
	)
	for uid, want := range map[string]bool{slice: true, folder: true, guaranteed: true, gone: false, "": false} {
		if got := node.Has(uid, "ffff6666"); got != want {
			t.Errorf("pod %q is there: %v, want %v", uid, got, want)
		}
	}
}
