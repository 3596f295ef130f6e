// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package underlay

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/needs"
)

// inOwnMounts is set for the copy of the test that has a mount namespace of its own.
const inOwnMounts = "ALIOTH_TEST_OWN_MOUNTS"

// On a machine that has just been started the folder of names does not exist yet.
func TestNamespaceName_BesideIPNetns_Removable(t *testing.T) {
	needs.Root(t, "to make mount namespaces")
	if os.Getenv(inOwnMounts) == "" {
		again := exec.Command("unshare", "--mount", os.Args[0], "-test.run=^"+t.Name()+"$")
		again.Env = append(os.Environ(), inOwnMounts+"=1")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("fresh", "/run", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := createNS("ours"); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"add", "delete"} {
		if out, err := exec.Command("ip", "netns", verb, "theirs").CombinedOutput(); err != nil {
			t.Fatalf("ip netns %s: %v\n%s", verb, err, out)
		}
	}
	if err := deleteNS("ours"); err != nil {
		t.Error(err)
	}
}
