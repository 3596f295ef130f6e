// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/delegate/host"
	"github.com/alioth-net/alioth/test/needs"
)

// TestMain is the daemon where it is started as a subcommand of it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == host.Subcommand {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestHostExec_Program_OnlyOwnInputAndEnvironment(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ns := mountNamespace(t)
	run := func(program string) (string, error) {
		argv := append(host.Enter(self, ns), program)
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Env = []string{"CNI_COMMAND=ADD"}
		cmd.Stdin = strings.NewReader("readlink /proc/$$/ns/mnt; pwd; env -u SHLVL -u _ -u PWD -u OLDPWD\n")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	id, err := os.Readlink(ns)
	if err != nil {
		t.Fatal(err)
	}
	if own, err := os.Readlink("/proc/self/ns/mnt"); err != nil || own == id {
		t.Fatalf("the namespace is the test's own: %v", err)
	}
	if out, err := run("/bin/sh"); err != nil || out != id+"\n/\nCNI_COMMAND=ADD\n" {
		t.Errorf("%v, printed %q, want namespace %s", err, out, id)
	}
	// The exit status comes from the program.
	if out, err := run("/bin/false"); err == nil || out != "" {
		t.Errorf("a program that fails: %v, %q", err, out)
	}
	if out, err := run("/no/such/program"); err == nil || !strings.Contains(out, unix.ENOENT.Error()) || !strings.Contains(out, "/no/such/program") {
		t.Errorf("a missing program: %v, %q", err, out)
	}
}

// mountNamespace returns a file that refers to a mount namespace of another process.
func mountNamespace(t *testing.T) string {
	t.Helper()
	needs.Root(t, "to make mount namespaces")
	holder := exec.Command("/bin/cat")
	holder.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); errors.Is(err, unix.EPERM) {
		t.Skip("needs CAP_SYS_ADMIN, to make mount namespaces")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = holder.Wait() })
	return fmt.Sprintf("/proc/%d/ns/mnt", holder.Process.Pid)
}
