// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// niceness of the control plane's processes. In a cluster the nodes compute on processors of
// their own, so here they have those that the control plane leaves.
const niceness = -10

// prefer gives all threads of processes precedence over those of this process. Later threads
// inherit it.
func prefer(pids ...int) error {
	for _, pid := range pids {
		folder := filepath.Join("/proc", strconv.Itoa(pid), "task")
		threads, err := os.ReadDir(folder)
		if err != nil {
			return fmt.Errorf("list the threads of process %d: %w", pid, err)
		}
		for _, entry := range threads {
			thread, err := strconv.Atoi(entry.Name())
			if err != nil {
				return fmt.Errorf("list the threads of process %d: %w", pid, err)
			}
			// A thread that has ended needs none.
			if err := syscall.Setpriority(syscall.PRIO_PROCESS, thread, niceness); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("give process %d precedence: %w", pid, err)
			}
		}
	}
	return nil
}
