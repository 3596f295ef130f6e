// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// names returns the names in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestLedger_LastReturn_OnlyMadeFoldersRemoved(t *testing.T) {
	base, ledger := t.TempDir(), Ledger{Dir: t.TempDir()}
	old, used, fresh := filepath.Join(base, "old"), filepath.Join(base, "used"), filepath.Join(base, "fresh", "deep")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, lab := range []string{"a", "b", "a"} {
		if err := ledger.Borrow(lab, []string{old, used, fresh}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(used, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	all := func(string) bool { return true }
	if err := ledger.Return("a", all); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"fresh", "old", "used"}, names(t, base)); diff != "" {
		t.Errorf("with one lab up (-want +got):\n%s", diff)
	}
	if err := ledger.Return("b", all); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"old", "used"}, names(t, base)); diff != "" {
		t.Errorf("with no lab up (-want +got):\n%s", diff)
	}
	if left := names(t, ledger.Dir); len(left) > 0 {
		t.Errorf("the ledger left %v", left)
	}
}

func TestLedger_LabVanished_FoldersReturned(t *testing.T) {
	base, ledger := t.TempDir(), Ledger{Dir: t.TempDir()}
	for _, lab := range []string{"vanished", "mine"} {
		if err := ledger.Borrow(lab, []string{filepath.Join(base, "dir")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := ledger.Return("mine", func(lab string) bool { return lab != "vanished" }); err != nil {
		t.Fatal(err)
	}
	if left := append(names(t, base), names(t, ledger.Dir)...); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// testGroup makes a cgroup of this host's own layout and returns its name.
func testGroup(t *testing.T) (Cgroups, string) {
	t.Helper()
	needs.Root(t, "to make cgroups")
	mounts, err := Mounts()
	if err != nil {
		t.Fatal(err)
	}
	c := FindCgroups(mounts)
	if c.Unified == "" {
		t.Skip("needs a cgroup2 mount")
	}
	name := fmt.Sprintf("alioth-host-test-%d", os.Getpid())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(10*time.Second))
		defer cancel()
		if err := c.Remove(ctx, name); err != nil {
			t.Error(err)
		}
	})
	if err := c.Create(name); err != nil {
		t.Fatal(err)
	}
	return c, name
}

func TestCgroup_CreateAndRemove_HoldsDaemonsThenGone(t *testing.T) {
	c, name := testGroup(t)
	if err := c.Create(name); err != nil {
		t.Errorf("creating it again: %v", err)
	}
	group, err := os.Open(c.DaemonsDirs(name)[0])
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids, err := c.Processes(name)
	if err != nil || !slices.Contains(pids, cmd.Process.Pid) {
		t.Errorf("processes %v, %v: want %d among them", pids, err, cmd.Process.Pid)
	}
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Remove(expired, name); err == nil {
		t.Error("a cgroup with a process was removed")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed on purpose
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(10*time.Second))
	defer cancel()
	if err := c.Remove(ctx, name); err != nil {
		t.Error(err)
	}
	for _, root := range c.Roots() {
		if _, err := os.Stat(filepath.Join(root, name)); !os.IsNotExist(err) {
			t.Errorf("%s is left below %s", name, root)
		}
	}
	if pids, err := c.Processes(name); err != nil || len(pids) != 0 {
		t.Errorf("processes of an absent cgroup: %v, %v", pids, err)
	}
}

func TestCheck_ThisMachine_CanRunLab(t *testing.T) {
	needs.Root(t, "as the lab does")
	if err := Check(t.Context(), t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestRestoreSettings_Unchanged_NothingWritten(t *testing.T) {
	settings := Settings()
	if len(settings) == 0 {
		t.Fatal("no kernel setting was read")
	}
	if err := restoreSettings(settings); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(settings, Settings()); diff != "" {
		t.Errorf("settings (-before +after):\n%s", diff)
	}
}
