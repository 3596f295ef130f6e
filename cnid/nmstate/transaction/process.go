// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// startOf returns when a process began, in ticks since the boot (proc_pid_stat(5), field
// 22), 0 for one that is gone or has ended and is not reaped.
func startOf(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for process %d: %w", pid, err)
	}
	// The second field is a name in brackets, and may contain both spaces and brackets.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const state, start = 0, 19
	if len(fields) <= start {
		return 0, fmt.Errorf("look for process %d: its status has %d fields", pid, len(fields))
	}
	if s := string(fields[state]); s == "Z" || s == "X" {
		return 0, nil
	}
	return strconv.ParseUint(string(fields[start]), 10, 64)
}

// alive reports whether the process that began then is running.
func alive(pid int, started uint64) bool {
	now, err := startOf(pid)
	return pid > 0 && err == nil && now == started && started > 0
}

// kill ends a process that began then, and no other one that has its number by now.
func kill(pid int, started uint64) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	// The file descriptor holds the number, so alive checks the very process that is ended.
	if !alive(pid, started) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	return nil
}
