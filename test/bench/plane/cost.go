// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// tick is the unit of CPU times in /proc (USER_HZ, proc_pid_stat(5)).
const tick = 10 * time.Millisecond

// CPUTime returns how much CPU a process has used so far.
func CPUTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	// The second field, the program's name, ends with the last parenthesis.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	var ticks int64
	for _, at := range []int{11, 12} { // utime and stime
		n, err := strconv.ParseInt(string(fields[at]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// PeakMemory returns the most memory that a process has had resident so far, in bytes.
func PeakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	_, rest, _ := bytes.Cut(text, []byte("VmHWM:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0, fmt.Errorf("read the memory of process %d: it has ended", pid)
	}
	kibibytes, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return kibibytes << 10, nil
}

// CPUTimes returns the CPU times of the control plane's processes and of
// operators, by name.
func (c *Plane) CPUTimes(operators ...*Replica) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	pids := c.Server.Processes()
	for _, r := range operators {
		pids["operator"] = r.PID()
	}
	for name, pid := range pids {
		used, err := CPUTime(pid)
		if err != nil {
			return nil, err
		}
		times[name] = used
	}
	return times, nil
}

// CPUSince returns how much CPU was used since times were taken.
func (c *Plane) CPUSince(before map[string]time.Duration, operators ...*Replica) (map[string]time.Duration, error) {
	now, err := c.CPUTimes(operators...)
	for name, used := range before {
		now[name] -= used
	}
	return now, err
}
