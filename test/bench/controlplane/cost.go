// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
)

// tick is the unit of CPU times in /proc (USER_HZ, proc_pid_stat(5)).
const tick = 10 * time.Millisecond

// profileSeconds is how long the API server is profiled.
const profileSeconds = 8

// cpuTime returns how much CPU a process has used so far.
func cpuTime(pid int) (time.Duration, error) {
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

// cpuTimes returns the CPU times of the control plane's processes and of
// operators, by name.
func (c *control) cpuTimes(operators ...*replica) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	pids := c.server.Processes()
	for _, r := range operators {
		pids["operator"] = r.process.Process.Pid
	}
	for name, pid := range pids {
		used, err := cpuTime(pid)
		if err != nil {
			return nil, err
		}
		times[name] = used
	}
	return times, nil
}

// cpuSince returns how much CPU was used since times were taken.
func (c *control) cpuSince(before map[string]time.Duration, operators ...*replica) (map[string]time.Duration, error) {
	now, err := c.cpuTimes(operators...)
	for name, used := range before {
		now[name] -= used
	}
	return now, err
}

// profileOf begins to profile the API server, and returns what waits for the
// file to be written. Without a folder for it, nothing is done.
func (b *Bench) profileOf(ctx context.Context, c *control, name string) (finish func() error) {
	if b.profile == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		api, err := kubernetes.NewForConfig(c.server.Config())
		if err != nil {
			done <- err
			return
		}
		text, err := api.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").
			Param("seconds", strconv.Itoa(profileSeconds)).DoRaw(ctx)
		if err == nil {
			err = os.WriteFile(filepath.Join(b.profile, name+".pprof"), text, 0o600)
		}
		done <- err
	}()
	return func() error {
		if err := <-done; err != nil {
			return fmt.Errorf("profile the API server: %w", err)
		}
		return nil
	}
}
