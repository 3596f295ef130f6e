// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/testtool/machine"
)

// firstProcess is the ID of the container's process in a pod.
const firstProcess = 1

// podDevice is the interface that a machine has.
const podDevice = "eth0"

// machineLimit is how long a machine may take until it is there.
const machineLimit = 30 * time.Second

func machineCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "machine COMMAND...",
		Short: "Run a command of this tool as in a virtual machine that has the pod's interface",
		Long: "Run a command of this tool as in a virtual machine that has the pod's interface:\n" +
			"in a network namespace of which nothing outside of the pod knows. The pod's first\n" +
			"process makes it, the others join that one.",
		DisableFlagParsing: true,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("say which command to run")
			}
			return becomeMachine(command.Context(), args)
		},
	}
}

// becomeMachine returns only with an error.
func becomeMachine(ctx context.Context, args []string) error {
	failed := make(chan error)
	go onAnotherThread(failed, func() error {
		if err := enterMachine(ctx); err != nil {
			return err
		}
		return syscall.Exec("/proc/self/exe", append([]string{os.Args[0]}, args...), os.Environ())
	})
	if err := <-failed; err != nil {
		return fmt.Errorf("run as a machine: %w", err)
	}
	return nil
}

// onAnotherThread runs a function on a thread other than the main thread, which shows the namespace
// of the process to others. The main thread shows the pod's namespace until the program is executed
// anew. All is ready then.
func onAnotherThread(done chan<- error, do func() error) {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		done <- do()
		return
	}
	inner := make(chan error)
	go onAnotherThread(inner, do) // and keep this thread meanwhile
	done <- <-inner
}

func enterMachine(ctx context.Context) error {
	if os.Getpid() == firstProcess {
		return machine.Make(podDevice)
	}
	ctx, cancel := within(ctx, machineLimit)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := machine.Join(firstProcess, podDevice)
		if !errors.Is(err, machine.ErrNone) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
