// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// olderBuild is the last commit whose maps have the layout before this one's.
const olderBuild = "3afd9de"

// TestUpgrade_ForthAndBack_ConnectionsSurvive: a daemon of an older build, whose
// maps have another layout, is replaced by one of this build, by the older one
// again, and by this one for good.
func TestUpgrade_ForthAndBack_ConnectionsSurvive(t *testing.T) {
	older := buildOlder(t)
	l := newLab(t)
	for _, m := range l.nodes {
		m.program = older
	}
	l.start(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var busy errgroup.Group
	l.stream(ctx, t, &busy)
	lost := l.pods["b1"].sendNumbers(ctx, t, &busy, l.pods["b3"])
	replaced := 0
	for _, program := range []string{"", older, ""} {
		for _, m := range l.nodes {
			m.stop(unix.SIGTERM)
			m.program = program
			m.start(t)
			replaced++
		}
	}
	stop()
	if err := busy.Wait(); err != nil {
		t.Error(err)
	}
	if n := lost(); n > replaced {
		t.Errorf("%d datagrams of a flow were lost while daemons were replaced %d times", n, replaced)
	} else {
		t.Logf("%d datagrams were lost", n)
	}
	for _, difference := range l.differences(t) {
		t.Error(difference)
	}
	for _, command := range []string{"DEL", "ADD"} {
		if err := l.cni(t, command, l.pods["b2"]); err != nil {
			t.Error(err)
		}
	}
}

// buildOlder builds this package's test binary as it was in olderBuild, which
// understands the same scripts.
func buildOlder(t *testing.T) string {
	t.Helper()
	run := func(dir, name string, args ...string) error {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Logf("%s: %s", cmd, out)
		}
		return err
	}
	if err := run(".", "git", "cat-file", "-e", olderBuild+"^{commit}"); err != nil {
		t.Skipf("the history has no commit %s: this is not a full clone", olderBuild)
	}
	source, binary := t.TempDir(), filepath.Join(t.TempDir(), "older.test")
	if err := run(".", "git", "worktree", "add", "--detach", source, olderBuild); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run(".", "git", "worktree", "remove", "--force", source); err != nil {
			t.Error(err)
		}
	})
	if err := run(source, "go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", binary, "./cnid"); err != nil {
		t.Fatal(err)
	}
	return binary
}
