// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/delegate"
	"github.com/alioth-net/alioth/cnid/cni/delegate/delegatetest"
	"github.com/alioth-net/alioth/cnid/cni/delegate/host"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// TestMain is a fake plugin, or the command that enters a mount namespace, where it is
// started under such a name.
func TestMain(m *testing.M) {
	delegatetest.Main()
	if text, ok := os.LookupEnv(daemonOf); ok {
		fmt.Fprintln(os.Stderr, daemon(text))
		os.Exit(1)
	}
	if filepath.Base(os.Args[0]) == "enter" {
		fmt.Fprintln(os.Stderr, host.Exec(os.Args[1], os.Args[2:], os.Environ()))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// rig has Delegates with two fake plugins, and a pod.
type rig struct {
	*delegate.Delegates
	cfg      delegate.Config
	log      string
	messages *bytes.Buffer
	pod      *netnstest.Namespace
}

func newRig(t *testing.T, edit func(*delegate.Config)) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{log: filepath.Join(dir, "log"), messages: &bytes.Buffer{}, pod: netnstest.New(t)}
	r.cfg = delegate.Config{
		Dir: filepath.Join(dir, "state", "delegates"), Plugins: []string{filepath.Join(dir, "none"), filepath.Join(dir, "bin")}, Root: "/",
		// Never reached, if nothing hangs.
		Wait: time.Minute, UndoWait: time.Minute, Log: slog.New(slog.NewTextHandler(r.messages, nil)),
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	delegatetest.Install(t, filepath.Join(dir, "bin"), "fake-one", "fake-two", "enter")
	if edit != nil {
		edit(&r.cfg)
	}
	r.restart(t)
	return r
}

// restart does the first steps of a new daemon.
func (r *rig) restart(t *testing.T) {
	t.Helper()
	var err error
	if r.Delegates, err = delegate.New(r.cfg); err != nil {
		t.Fatal(err)
	}
}

// attachment has both plugins. The second plugin behaves as the argument says.
func (r *rig) attachment(t *testing.T, version string, second delegatetest.Conf) delegate.Attachment {
	t.Helper()
	second.Type, second.Log = "fake-two", r.log
	text, err := json.Marshal(map[string]any{
		"cniVersion": version, "name": "net", "plugins": []any{
			map[string]any{"type": "fake-one", "log": r.log, "big": json.RawMessage("12345678901234567890")}, second,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return delegate.Attachment{
		ContainerID: "sandbox", IfName: "net1", PodUID: "uid", Network: "alioth", NetnsPath: r.pod.Path, Conf: text,
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAME", "p"}},
	}
}

// ran returns the runs as "COMMAND plugin".
func (r *rig) ran(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, call := range delegatetest.Calls(t, r.log) {
		list = append(list, call.Command()+" "+call.Type)
	}
	return list
}

func (r *rig) expectNothingKept(t *testing.T) {
	t.Helper()
	if left, err := os.ReadDir(r.cfg.Dir); err != nil || len(left) != 0 {
		t.Errorf("kept are %v, %v", left, err)
	}
}

func atAdd(add delegatetest.Behaviour) delegatetest.Conf {
	return delegatetest.Conf{Do: map[string]delegatetest.Behaviour{"ADD": add}}
}

// expectGone waits until all processes of the runs have ended.
func expectGone(t *testing.T, calls []delegatetest.Call) {
	t.Helper()
	for _, call := range calls {
		for _, pid := range call.Pids {
			eventually(t, fmt.Sprintf("process %d of %s ends", pid, call.Command()), func() bool { return ended(pid) })
		}
	}
}

// ended reports whether a process is gone or has only its exit status left.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	waits.True(t, time.Minute, what, holds)
}

// mountNamespace returns a file that refers to a mount namespace. dir has a file system of its
// own there. A thread holds the namespace until the end of the test.
func mountNamespace(t *testing.T, dir string) string {
	t.Helper()
	needs.Root(t, "to make mount namespaces")
	ready, end := make(chan error), make(chan struct{})
	var ns string
	go holdMounts(dir, &ns, ready, end)
	t.Cleanup(func() { close(end) })
	if err := <-ready; errors.Is(err, unix.EPERM) {
		t.Skip("needs CAP_SYS_ADMIN, to make mount namespaces")
	} else if err != nil {
		t.Fatal(err)
	}
	return ns
}

// holdMounts gives its thread a mount namespace, which ends with the thread: it stays
// locked.
func holdMounts(dir string, ns *string, ready chan<- error, end <-chan struct{}) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The process's first thread never ends; take another while this one is busy.
		done := make(chan struct{})
		go func() { defer close(done); holdMounts(dir, ns, ready, end) }()
		<-done
		runtime.UnlockOSThread()
		return
	}
	*ns = fmt.Sprintf("/proc/%d/task/%d/ns/mnt", os.Getpid(), unix.Gettid())
	err := unix.Unshare(unix.CLONE_NEWNS) // with CLONE_FS
	if err == nil {
		err = errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	}
	ready <- err
	<-end
}
