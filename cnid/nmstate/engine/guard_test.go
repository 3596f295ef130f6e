// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/test/waits"
)

// role is the environment variable that makes the test's binary the daemon in a container.
// Its value is the folder of the transactions and, after a colon, the node's file system.
const role = "ALIOTH_TEST_ENGINE_CONTAINER"

// TestMain is a guard or a daemon too: the guard has no variables.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "guard" {
		fail(guard(os.Args[2], os.Args[3], os.Args[4]))
	}
	if dir, root, ok := strings.Cut(os.Getenv(role), ":"); ok {
		fail(contained(dir, root))
	}
	if dir, root, ok := strings.Cut(os.Getenv(serving), ":"); ok {
		fail(serveDHCP(dir, root))
	}
	os.Exit(m.Run())
}

// fail ends the process.
func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func guard(dir, root, id string) error {
	return engine.Guard(context.Background(), configOf(dir, root), id)
}

func configOf(dir, root string) engine.Config {
	return engine.Config{Dir: dir, Root: root, Guard: []string{"/proc/self/exe", "guard", dir, "/"}, Log: os.Stderr}
}

const renumbered = "interfaces: [{name: eth0, mtu: 1400, ipv4: {enabled: true, address: [{ip: 10.0.0.9, prefix-length: 24}]}}]"

// stuck is a log that writes "changed" before the last step of renumbered, and ends there.
type stuck struct{ dir string }

func (s stuck) Write(line []byte) (int, error) {
	if !strings.HasPrefix(string(line), "add 10.0.0.9/24") {
		return len(line), nil
	}
	if err := os.WriteFile(filepath.Join(s.dir, "changed"), nil, 0o600); err != nil {
		fail(err)
	}
	select {}
}

// contained is the daemon: in a container, it does not come to the end of a change.
func contained(dir, root string) error {
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", "/var", "tmpfs", 0, ""),
		unix.Mount("", groups(), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""),
	)
	if err != nil {
		return err
	}
	if os.Getpid() == 1 { // in a PID namespace of its own
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return err
		}
	}
	cfg := configOf(dir, root)
	cfg.Log = stuck{dir}
	e, err := engine.Open(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	desired, err := document.Parse([]byte(renumbered))
	if err == nil {
		_, err = e.Apply(context.Background(), desired, transaction.Options{Timeout: time.Hour})
	}
	return err
}

// groups returns where the unified hierarchy of control groups is mounted, "" for nowhere.
func groups() string {
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var system unix.Statfs_t
		if err := unix.Statfs(root, &system); err == nil && system.Type == unix.CGROUP2_SUPER_MAGIC {
			return root
		}
	}
	return ""
}

// group makes a control group of the unified hierarchy for a container.
func group(t *testing.T) string {
	t.Helper()
	root := groups()
	if root == "" {
		t.Skip("no unified hierarchy of control groups is mounted")
	}
	path, err := os.MkdirTemp(root, "alioth-test-*")
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) {
		t.Skip("control groups can't be made here: the hierarchy is read-only")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wait(t, "the control group is empty", func() bool { return os.Remove(path) == nil }) })
	return path
}

// wait waits for a condition.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	waits.True(t, time.Minute, what, is)
}

// container starts a daemon in the node's network, and in a mount namespace and a control
// group of its own, as in a pod with hostNetwork and hostPID. more are other namespaces.
func (n node) container(t *testing.T, more uintptr) (cmd *exec.Cmd, output *strings.Builder, cgroup string) {
	t.Helper()
	cgroup = group(t)
	folder, err := os.Open(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	output = &strings.Builder{}
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = []string{role + "=" + n.dir + ":" + fmt.Sprintf("/proc/%d/root", os.Getpid())}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | more, Unshareflags: unix.CLONE_NEWCGROUP,
		UseCgroupFD: true, CgroupFD: int(folder.Fd()), Pdeathsig: unix.SIGKILL,
	}
	n.space.Do(t, func() error { err = cmd.Start(); return nil })
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("containers can't be made here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, output, cgroup
}

// TestGuard_ContainerEnds_Survives: all processes of a pod end at once when it is deleted
// without grace, and its files go.
func TestGuard_ContainerEnds_Survives(t *testing.T) {
	n := newNode(t)
	before := n.show(t)
	cmd, output, cgroup := n.container(t, 0)
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	wait(t, "the daemon has changed the node", func() bool {
		select {
		case <-done:
			t.Fatalf("the daemon has ended: %s", output)
		default:
		}
		_, err := os.Stat(filepath.Join(n.dir, "changed"))
		return err == nil
	})
	record := n.record(t)
	t.Cleanup(func() { n.endGuard(t, record) })
	if n.equal(t, before) {
		t.Error("nothing was changed")
	}
	n.isAtHome(t, record.Guard, cgroup)
	if err := os.WriteFile(filepath.Join(cgroup, "cgroup.kill"), []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	<-done
	if text, err := os.ReadFile(filepath.Join(cgroup, "cgroup.procs")); err != nil || len(text) > 0 {
		t.Errorf("the container still has the processes %q, %v", text, err)
	}
	wait(t, "the guard has restored the node", func() bool { return n.closed() })
	if !n.equal(t, before) {
		t.Errorf("the node has another state: %+v", n.show(t))
	}
}

// isAtHome checks that a guard has nothing of the container.
func (n node) isAtHome(t *testing.T, pid int, cgroup string) {
	t.Helper()
	for _, space := range []string{"mnt", "cgroup", "pid"} {
		own, err := os.Readlink("/proc/self/ns/" + space)
		if err != nil {
			t.Fatal(err)
		}
		if of, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, space)); err != nil || of != own {
			t.Errorf("its namespace %s is %s, want %s: %v", space, of, own, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(cgroup, "cgroup.procs")); err != nil || strings.Contains(string(text), strconv.Itoa(pid)) {
		t.Errorf("the container has it: %q, %v", text, err)
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || exe != filepath.Join(n.dir, "guard") {
		t.Errorf("it runs %s, %v", exe, err)
	}
}

// TestGuard_WouldEndEarly_ChangeNotBegun: the kernel ends a guard with its PID namespace.
func TestGuard_WouldEndEarly_ChangeNotBegun(t *testing.T) {
	n := newNode(t)
	before := n.show(t)
	cmd, output, _ := n.container(t, unix.CLONE_NEWPID)
	if err := cmd.Wait(); err == nil || !strings.Contains(output.String(), "hostPID") {
		t.Errorf("%v: %s", err, output)
	}
	if !n.equal(t, before) {
		t.Error("the node was changed")
	}
}

// TestGuard_StartsTooLate_NothingMade: its transaction is over, and so is the folder.
func TestGuard_StartsTooLate_NothingMade(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct{ what, dir string }{
		{"the folder is removed", filepath.Join(n.dir, "removed")}, {"the transaction is committed", t.TempDir()},
	} {
		n.space.Do(t, func() error { return engine.Guard(t.Context(), configOf(c.dir, "/"), "ended") })
		if left, err := os.ReadDir(c.dir); len(left) > 0 || err == nil && strings.HasSuffix(c.dir, "removed") {
			t.Errorf("%s: the guard has made %s with %v", c.what, c.dir, left)
		}
	}
}

func TestGuard_CommandMissing_ChangeNotBegun(t *testing.T) {
	n := newNode(t)
	before := n.show(t)
	err := n.with(t, func(cfg *engine.Config) { cfg.Guard = nil }, func(e *engine.Engine) error {
		_, err := e.Apply(t.Context(), parse(t, renumbered), transaction.Options{Timeout: time.Minute})
		return err
	})
	if !errors.Is(err, engine.ErrNoGuard) || !n.equal(t, before) {
		t.Errorf("got %v", err)
	}
}
