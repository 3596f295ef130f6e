// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command pause keeps a pod's namespaces alive: it waits to be told to end
// and, as the first process of a shared PID namespace, reaps orphans.
package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGCHLD)
	for sig := range signals {
		if sig != unix.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every child that has ended; one signal may stand for several.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
