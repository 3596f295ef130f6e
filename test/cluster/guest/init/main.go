// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Init is the first program of a node that is a virtual machine. It sets the machine up
// by its plan, starts the agent, which is the same program, and collects processes whose
// parents have ended. The machine turns itself off with the agent.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/guest"
	"github.com/alioth-net/alioth/test/cluster/guest/agent"
	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/vm/boot"
)

// asAgent is the argument that makes this program the agent.
const asAgent = "agent"

func main() {
	if len(os.Args) > 1 && os.Args[1] == asAgent {
		fmt.Fprintln(os.Stderr, "agent:", serve())
		os.Exit(1)
	}
	// It ends by a failure only: the agent serves as long as the machine is to run.
	fmt.Fprintln(os.Stderr, "init:", run())
	fmt.Fprintln(os.Stderr, "init:", boot.PowerOff())
}

func run() error {
	// The kernel gives the first program no PATH.
	for _, setting := range node.Environment() {
		name, value, _ := strings.Cut(setting, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set the environment: %w", err)
		}
	}
	plan, err := readPlan()
	if err != nil {
		return err
	}
	if err := setUp(plan); err != nil {
		return err
	}
	self := exec.Command("/init", asAgent)
	self.Stdout, self.Stderr = os.Stdout, os.Stderr
	if err := self.Start(); err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	return collectUntil(self.Process.Pid)
}

// collectUntil collects every process that ends, and returns when that with an ID has.
func collectUntil(pid int) error {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for processes: %w", err)
		case ended == pid:
			return fmt.Errorf("the agent has ended: status %d, signal %d", status.ExitStatus(), status.Signal())
		}
	}
}

func readPlan() (plan guest.Plan, err error) {
	raw, err := os.ReadFile(guest.PlanFile)
	if err != nil {
		return plan, fmt.Errorf("read the plan: %w", err)
	}
	if err := json.Unmarshal(raw, &plan); err != nil {
		return plan, fmt.Errorf("read the plan: %w", err)
	}
	return plan, nil
}

func serve() error {
	plan, err := readPlan()
	if err != nil {
		return err
	}
	address, _ := plan.Topology.NodeIPs(plan.Index)
	server := http.Server{Addr: agent.Address(address), Handler: agent.NewServer().Handler()}
	return server.ListenAndServe()
}
