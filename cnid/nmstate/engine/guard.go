// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/cnid/system/durable"
)

// Names in the folder of transactions.
const (
	guardLog    = "guard.log"
	guardBinary = "guard"
)

// Errors that callers tell apart.
var (
	// ErrNoGuard: the engine has no command for its guard.
	ErrNoGuard = errors.New("this engine only shows the node's network: it has no command that would undo a change")
	// ErrOwnPIDs: the kernel ends all processes of a PID namespace with its first one.
	ErrOwnPIDs = errors.New(
		"this process is the first of its PID namespace, so nothing outlives it that could undo a change; " +
			"let the pod share the node's PID namespace (hostPID: true)",
	)
)

// Guard waits for the end of a transaction, and rolls it back if its process ends or its
// deadline passes. It makes no folder: its transaction may be over before it begins, and somebody
// may have removed the folder. The end of the first process must not end it: ctx should have no
// cause to end.
func Guard(ctx context.Context, cfg Config, id string) error {
	e, err := open(cfg, transaction.Existing)
	if err != nil {
		return err
	}
	defer e.Close()
	return e.transactions.Guard(ctx, id)
}

// guards starts the guards of an engine's transactions. A guard outlives its engine: the end
// of a terminal, of a unit or of a container does not end it.
type guards struct {
	command   []string
	dir, root string
	space     ns.NetNS

	mu sync.Mutex
	// copied: the node has a copy of this engine's binary.
	copied bool
}

// StartGuard implements transaction.Safeguards. It starts the guard in the network namespace of the
// engine. The guard has left the container, if there is one, when StartGuard returns.
func (g *guards) StartGuard(id string) (pid int, err error) {
	switch {
	case len(g.command) == 0:
		return 0, ErrNoGuard
	case os.Getpid() == 1:
		return 0, ErrOwnPIDs
	}
	home, err := homeOf(g.root)
	if err != nil {
		return 0, err
	}
	defer home.close()
	binary := g.command[0]
	if home.elsewhere() {
		if binary, err = g.install(); err != nil {
			return 0, err
		}
	}
	log, err := os.OpenFile(filepath.Join(g.dir, guardLog), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }()
	process := g.process(binary, id, log)
	if err := onThread(func() error { return g.startIn(home, process) }); err != nil {
		return 0, err
	}
	go func() { _ = process.Wait() }() // a process that has ended and is not waited for seems to run
	return process.Process.Pid, nil
}

// process returns the guard of a transaction, in a session of its own. It has no environment
// variables, because the variables of a container mean nothing on the node.
func (g *guards) process(binary, id string, log *os.File) *exec.Cmd {
	arguments := append(slices.Clone(g.command[1:]), id)
	p := exec.Command(binary, arguments...) //nolint:noctx // it outlives every context of this process
	p.Env = []string{}
	p.Stdout, p.Stderr = log, log
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return p
}

// startIn starts a guard in its home, and in the engine's network namespace. The calling
// thread is there afterwards.
func (g *guards) startIn(h home, process *exec.Cmd) error {
	if err := unix.Setns(int(g.space.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	return h.start(process)
}

// install copies the binary to the folder of transactions, which the node has too, and
// returns its path there. The files of a container go with it.
func (g *guards) install() (string, error) {
	path := filepath.Join(g.dir, guardBinary)
	here, err := os.Stat(g.dir)
	if err != nil {
		return "", err
	}
	there, err := os.Stat(filepath.Join(g.root, g.dir))
	if err != nil {
		return "", fmt.Errorf(
			"look for the folder of transactions on the node: %w; mount it from the node at the same path",
			err,
		)
	}
	if !os.SameFile(here, there) {
		return "", fmt.Errorf("the container's folder %s is not the node's: mount it from the node at the same path", g.dir)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.copied {
		return path, nil
	}
	if err := replace(path, g.command[0]); err != nil {
		return "", fmt.Errorf("copy the guard to the node: %w", err)
	}
	g.copied = true
	return path, nil
}

// replace makes a program a copy of another one, in one step. A guard that runs the former
// copy goes on with that.
func replace(path, source string) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	fresh := path + durable.Suffix
	to, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = to.ReadFrom(from)
	if err = errors.Join(err, to.Close()); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return nil
}

// onThread runs f on a thread of its own, which ends with f: no other code runs in a namespace
// that f enters.
func onThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		if unix.Gettid() == os.Getpid() {
			// The process's first thread does not end, and stands for the process in /proc.
			// Another thread is taken while this one waits.
			defer runtime.UnlockOSThread()
			result <- onThread(f)
			return
		}
		result <- f()
	}()
	return <-result
}
