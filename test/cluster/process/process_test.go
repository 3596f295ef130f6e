// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// daemonSpec describes a shell command as a daemon.
func daemonSpec(t *testing.T, script string) Spec {
	t.Helper()
	needs.Root(t, "to make cgroups")
	mounts, err := host.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	cgroup := host.FindCgroups(mounts).Unified
	if cgroup == "" {
		t.Skip("missing feature: a cgroup2 mount")
	}
	return Spec{
		Name: "test/daemon", Args: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"},
		Log: filepath.Join(t.TempDir(), "log"), Cgroups: []string{cgroup},
	}
}

// endWithTest ends a daemon with the test.
func endWithTest(t *testing.T, child *Child) {
	t.Helper()
	t.Cleanup(func() {
		if err := child.ID.Signal(unix.SIGKILL); err != nil {
			t.Error(err)
		}
		<-child.Exited()
	})
}

// startDaemon starts a shell command and ends it with the test.
func startDaemon(t *testing.T, script string) *Child {
	t.Helper()
	child, err := Start(daemonSpec(t, script))
	if err != nil {
		t.Fatal(err)
	}
	endWithTest(t, child)
	return child
}

func TestStart_Cgroups_Joined(t *testing.T) {
	mounts, err := host.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	cpu, ok := host.FindCgroups(mounts).V1["cpu"]
	if !ok {
		t.Skip("needs a cgroup v1 hierarchy for the CPU")
	}
	spec := daemonSpec(t, "exec sleep 60")
	group, err := os.MkdirTemp(cpu, "alioth-process-test-")
	if err != nil {
		t.Fatal(err)
	}
	spec.Cgroups = append(spec.Cgroups, group)
	child, err := Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	member, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if want := fmt.Sprintf("%d\n", child.ID.PID); err != nil || string(member) != want {
		t.Errorf("processes of the group: %q, %v; want %q", member, err, want)
	}
	if err := child.ID.Signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	<-child.Exited()
	if err := os.Remove(group); err != nil {
		t.Error(err)
	}
	spec.Cgroups[1] = filepath.Join(cpu, "alioth-process-test-absent")
	if child, err := Start(spec); err == nil {
		endWithTest(t, child)
		t.Error("a daemon started without one of its cgroups")
	}
}

func TestDaemon_Signalled_EndsInOwnSession(t *testing.T) {
	child := startDaemon(t, "exec sleep 60")
	if !child.ID.Alive() {
		t.Fatal("the daemon is not alive")
	}
	if sid, err := unix.Getsid(child.ID.PID); err != nil || sid != child.ID.PID {
		t.Errorf("session %d, %v: want its own, %d", sid, err, child.ID.PID)
	}
	if err := child.ID.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(10*time.Second))
	defer cancel()
	if err := child.ID.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if child.ID.Alive() {
		t.Error("the daemon is alive after its end")
	}
	if err := child.ID.Signal(unix.SIGTERM); err != nil {
		t.Errorf("a signal to a process that is gone: %v", err)
	}
}

func TestSignal_ReusedPID_NotSent(t *testing.T) {
	child := startDaemon(t, "exec sleep 60")
	stale := ID{PID: child.ID.PID, Start: child.ID.Start - 1}
	if stale.Alive() {
		t.Error("a process with another start time counts as alive")
	}
	if err := stale.Signal(unix.SIGKILL); err != nil {
		t.Errorf("signal: %v", err)
	}
	if err := stale.Wait(t.Context()); err != nil {
		t.Errorf("wait: %v", err)
	}
	if !child.ID.Alive() {
		t.Error("the signal reached the wrong process")
	}
}

func TestWait_ContextEnds_Returns(t *testing.T) {
	child := startDaemon(t, "exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := child.ID.Wait(ctx); err == nil {
		t.Error("waiting for a living process returned without an error")
	}
}

func TestExitError_EarlyExit_LogIncluded(t *testing.T) {
	child := startDaemon(t, "echo 'bind: address already in use' >&2; exit 3")
	<-child.Exited()
	if err := child.ExitError(); !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("error %q does not show the log", err)
	}
}

func TestStartTime_AnyProcessName_Found(t *testing.T) {
	tail := " S 1" + strings.Repeat(" 0", 17) + " 4711 0 0"
	for _, name := range []string{"(sh)", "(a b)", "(a) (b)", "())"} {
		got, err := startTime("42 " + name + tail)
		if err != nil || got != 4711 {
			t.Errorf("name %s: start time %d, %v; want 4711", name, got, err)
		}
	}
	if _, err := startTime("42 (sh) S 1"); err == nil {
		t.Error("a short line was accepted")
	}
}

func TestProcesses_NetworkNamespace_OnlyMembersFound(t *testing.T) {
	spec := daemonSpec(t, "exec sleep 60")
	var child *Child
	err := OnThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		child, err = Start(spec)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	endWithTest(t, child)
	space := SpaceOf(child.ID)
	pids, err := Inside([]string{space.Net, "/proc/0/ns/net"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(pids, []int{child.ID.PID}) {
		t.Errorf("processes %v: want %d alone", pids, child.ID.PID)
	}
	// Another thread enters it and sees it, while this one stays outside.
	outside, _ := inodeOf("/proc/self/ns/net")
	err = OnThread(func() error {
		if err := (Space{Net: space.Net}).Enter(); err != nil {
			return err
		}
		if inside, _ := inodeOf("/proc/thread-self/ns/net"); inside == outside {
			return fmt.Errorf("the thread is still in the namespace %d", inside)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
