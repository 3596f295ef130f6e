// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Init is the first and only program of a test machine. It mounts the file systems that tests need,
// loads kernel modules, runs the plan's test binaries one by one, reports, and turns the machine
// off. Its file system needs nothing else: no shell, no library.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/vm/boot"
	"github.com/alioth-net/alioth/test/vm/guest"
)

func main() {
	if err := run(); err != nil {
		// The console is left when the way to the host is not.
		fmt.Fprintln(os.Stderr, "init:", err)
	}
	fmt.Fprintln(os.Stderr, "init:", boot.PowerOff())
}

func run() error {
	if err := boot.MountUsual(); err != nil {
		return err
	}
	host, err := openHost(guest.Results)
	if err != nil {
		return err
	}
	failure := work(host)
	last := guest.Message{Finished: true}
	if failure != nil {
		last.Failure = failure.Error()
	}
	return host.send(last)
}

// work carries out the plan.
func work(host *host) error {
	release, err := kernelRelease()
	if err != nil {
		return err
	}
	if err := host.send(guest.Message{Release: release}); err != nil {
		return err
	}
	plan, err := readPlan(guest.PlanFile)
	if err != nil {
		return err
	}
	if err := boot.Load(plan.Modules); err != nil {
		return err
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	for _, test := range plan.Tests {
		if err := runTest(host, test, plan.Environment); err != nil {
			return err
		}
	}
	return nil
}

func readPlan(file string) (plan guest.Plan, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return plan, fmt.Errorf("read the plan: %w", err)
	}
	if err := json.Unmarshal(raw, &plan); err != nil {
		return plan, fmt.Errorf("read the plan %s: %w", file, err)
	}
	return plan, nil
}

func kernelRelease() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("ask for the kernel's release: %w", err)
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}
