// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process starts daemons that outlive the caller and later finds and
// ends exactly those again.
//
// A process ID alone may name a stranger after a while, so every process is
// known by its ID and its start time, and is signalled through a pidfd that
// was checked against both.
package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ID identifies one process until the machine reboots.
type ID struct {
	// PID is the process ID in the initial PID namespace.
	PID int `json:"pid"`
	// Start is the start time in clock ticks since boot, field 22 of
	// proc_pid_stat(5).
	Start uint64 `json:"start"`
}

// Spec is the command line and the environment of a daemon.
type Spec struct {
	// Name is shown in errors and names the log file.
	Name string `json:"name"`
	// Args holds the absolute path of the binary and its arguments.
	Args []string `json:"args"`
	// Env is the whole environment as KEY=value.
	Env []string `json:"env,omitempty"`
	// Log is the file that gets standard output and error. Its earlier content stays.
	Log string `json:"log"`
	// Cgroups are the folders of the process's cgroups: it starts in the
	// first, which is one of cgroup2, and joins the others.
	Cgroups []string `json:"cgroups"`
}

// Child is a daemon started by this process.
type Child struct {
	ID   ID
	spec Spec
	done chan struct{}
}

// Start runs spec in a session of its own, in the namespaces of the calling
// thread: lock the goroutine to its thread when these differ from the others'.
// The daemon goes on when the caller exits.
func Start(spec Spec) (*Child, error) {
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", spec.Name, err)
	}
	defer log.Close()
	group, err := os.Open(spec.Cgroups[0])
	if err != nil {
		return nil, fmt.Errorf("open the cgroup of %s: %w", spec.Name, err)
	}
	defer group.Close()
	cmd := &exec.Cmd{
		Path: spec.Args[0], Args: spec.Args, Env: spec.Env, Dir: "/",
		Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(group.Fd())},
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		return nil, fmt.Errorf("identify %s, which has just started (see %s): %w", spec.Name, spec.Log, err)
	}
	child := &Child{ID: id, spec: spec, done: make(chan struct{})}
	go func() {
		// Only the fact of the exit matters; its reason is in the log.
		_ = cmd.Wait()
		close(child.done)
	}()
	if err := child.join(spec.Cgroups[1:]); err != nil {
		return nil, errors.Join(err, child.ID.Signal(unix.SIGKILL))
	}
	return child, nil
}

// join moves the daemon into further cgroups. If it has ended already, that is reported
// elsewhere.
func (c *Child) join(groups []string) error {
	for _, dir := range groups {
		err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(c.ID.PID)), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("move %s into its cgroup: %w", c.spec.Name, err)
		}
	}
	return nil
}

// Exited is closed when the daemon has ended.
func (c *Child) Exited() <-chan struct{} { return c.done }

// ExitError describes a daemon that ended too early, with the end of its log.
func (c *Child) ExitError() error {
	return fmt.Errorf("%s ended; its log %s ends with:\n%s", c.spec.Name, c.spec.Log, logTail(c.spec.Log))
}

// Identify returns the identity of a running process. The error is fs.ErrNotExist if the process
// does not run.
func Identify(pid int) (ID, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return ID{}, err
	}
	start, err := startTime(string(raw))
	if err != nil {
		return ID{}, fmt.Errorf("parse the state of process %d: %w", pid, err)
	}
	return ID{PID: pid, Start: start}, nil
}

// startTime extracts field 22 of a stat line. The second field, the name in
// parentheses, may itself hold spaces and parentheses.
func startTime(stat string) (uint64, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const index = 22 - 3 // the first field after the name is the third
	if len(fields) <= index {
		return 0, fmt.Errorf("too few fields in %q", stat)
	}
	return strconv.ParseUint(fields[index], 10, 64)
}

// Alive reports whether the process still runs. A zombie does not.
func (id ID) Alive() bool {
	fd, err := id.open()
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return !ended(fd, 0)
}

// Signal sends sig. It returns nil for a process that is gone.
func (id ID) Signal(sig unix.Signal) error {
	fd, err := id.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %s to process %d: %w", unix.SignalName(sig), id.PID, err)
	}
	return nil
}

// Wait returns when the process has ended or ctx has.
func (id ID) Wait(ctx context.Context) error {
	fd, err := id.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for !ended(fd, 100*time.Millisecond) {
		if ctx.Err() != nil {
			return fmt.Errorf("wait for process %d to end: %w", id.PID, ctx.Err())
		}
	}
	return nil
}

// open returns a pidfd that refers to this process and to no successor.
func (id ID) open() (int, error) {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, fs.ErrNotExist
	}
	if err != nil {
		return -1, fmt.Errorf("open process %d: %w", id.PID, err)
	}
	// The start time is read after the pidfd was taken: if it matches, the
	// pidfd cannot belong to a later process of the same ID.
	now, err := Identify(id.PID)
	if err == nil && now != id {
		err = fs.ErrNotExist
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// ended waits up to limit for the process behind a pidfd to end.
func ended(fd int, limit time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(limit.Milliseconds()))
	return err == nil && n > 0
}

// logTail returns the last lines of a log file.
func logTail(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
