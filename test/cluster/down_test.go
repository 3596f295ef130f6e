// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// frozenCases has, for each kind of cgroup, the file that freezes it with the text to write, and
// the file that reports it with its text then.
var frozenCases = map[string]struct{ file, freeze, reported, frozen string }{
	"cgroup v1": {"freezer.state", "FROZEN", "freezer.state", "FROZEN\n"},
	"cgroup2":   {"cgroup.freeze", "1", "cgroup.events", "frozen 1\n"},
}

// TestDown_FrozenCgroup_ProcessesEnd freezes the group of a container, as runc does before it looks
// at its processes, and as it stays if runc is killed then.
func TestDown_FrozenCgroup_ProcessesEnd(t *testing.T) {
	needs.Root(t, "to make cgroups")
	mounts, err := host.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{cgroups: host.FindCgroups(mounts)}
	for kind, root := range map[string]string{"cgroup v1": c.cgroups.V1["freezer"], "cgroup2": c.cgroups.Unified} {
		t.Run(kind, func(t *testing.T) {
			if root == "" {
				t.Skip("missing feature: a freezer of " + kind)
			}
			how, name := frozenCases[kind], fmt.Sprintf("alioth-frozen-test-%d", os.Getpid())
			child, group := startBelow(t, c, root, name)
			if err := os.WriteFile(filepath.Join(group, how.file), []byte(how.freeze), 0); err != nil {
				t.Fatal(err)
			}
			waits.Until(t, time.Minute, "the group to be frozen", func() error {
				reported, err := os.ReadFile(filepath.Join(group, how.reported))
				if err == nil && !strings.Contains(string(reported), how.frozen) {
					err = fmt.Errorf("%s tells %q", how.reported, reported)
				}
				return err
			})
			if err := c.killEach(waits.Within(t, 10*time.Second), []string{name}, nil, nil); err != nil {
				t.Error(err)
			}
			if child.ID.Alive() {
				t.Error("the process is alive")
			}
		})
	}
}

// startBelow starts a process in a group below the one called name in a hierarchy. Both end with
// the test.
func startBelow(t *testing.T, c *Cluster, root, name string) (child *process.Child, group string) {
	t.Helper()
	if err := c.cgroups.Create(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.cgroups.Remove(waits.Within(t, 10*time.Second), name); err != nil {
			t.Error(err)
		}
	})
	group = filepath.Join(root, name, "pod")
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	groups := []string{group}
	if root != c.cgroups.Unified {
		groups = []string{c.cgroups.DaemonsDirs(name)[0], group}
	}
	child, err := process.Start(process.Spec{
		Name: "test/frozen", Args: []string{"/bin/sleep", "600"}, Log: filepath.Join(t.TempDir(), "log"), Cgroups: groups,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(child.ID.Signal(unix.SIGKILL), c.cgroups.Thaw(name)); err != nil {
			t.Error(err)
		}
		<-child.Exited()
	})
	return child, group
}
