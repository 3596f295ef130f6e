// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Watches measures the costs of a node of 1,000 VPCs to follow the API: memory, CPU and time until
// everything is read, with one watch for the Addresses of each VPC, and with watches for the VPC
// and its Subnets too. The API server is a stub in a process of its own, because only the client is
// measured. `make bench` measures the whole daemon at a real one.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/cnid/cluster/subscriptions"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/client/reflector"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

const (
	// asStub and asNode are the first arguments of the processes that a run starts.
	asStub, asNode = "stub", "node"
	// fewer is the second argument of a node without the watches for VPCs and Subnets.
	fewer = "fewer"
	// garbagePercent is the daemon's percentage.
	garbagePercent = 25
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "watches:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 0:
		if _, err := fmt.Fprintf(os.Stdout, "%d VPCs with %d Addresses each\n", manyVPCs, addressesOfVPC); err != nil {
			return err
		}
		for _, of := range []string{fewer, "all"} {
			node := exec.Command(os.Args[0], asNode, of)
			node.Stdout, node.Stderr = os.Stdout, os.Stderr
			if err := node.Run(); err != nil {
				return fmt.Errorf("measure a node: %w", err)
			}
		}
		return nil
	case args[0] == asStub:
		return serve(os.Stdout)
	}
	return measure(len(args) > 1 && args[1] == fewer)
}

// measure follows everything, and prints the costs.
func measure(without bool) error {
	stub, url, err := startStub()
	if err != nil {
		return err
	}
	defer func() { _ = stub.Process.Kill() }()
	debug.SetGCPercent(garbagePercent)
	sources, err := newSources(url, without)
	if err != nil {
		return err
	}
	began := time.Now()
	sources.Start(context.Background())
	go sources.Run(context.Background())
	for {
		synced, changed := sources.Synced()
		if synced {
			break
		}
		<-changed
	}
	took := time.Since(began)
	runtime.GC()
	return report(os.Stdout, without, took)
}

// startStub starts the API server, and returns its address.
func startStub() (stub *exec.Cmd, url string, err error) {
	stub = exec.Command(os.Args[0], asStub)
	stub.Stderr, stub.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := stub.StdoutPipe()
	if err != nil {
		return nil, "", fmt.Errorf("make a pipe: %w", err)
	}
	if err := stub.Start(); err != nil {
		return nil, "", fmt.Errorf("start the stub: %w", err)
	}
	url, err = bufio.NewReader(out).ReadString('\n')
	return stub, strings.TrimSpace(url), err
}

// newSources returns the sources of a node at the stub.
func newSources(url string, without bool) (*subscriptions.Sources, error) {
	scheme := kruntime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		return nil, err
	}
	api, err := kube.New(&rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}, scheme)
	if err != nil {
		return nil, err
	}
	rows, err := store.New()
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(kinds.All(), func(kind *descriptor.Kind) bool {
		return without && (kind == vpcs.VPC.Kind || kind == vpcs.Subnet.Kind)
	})
	log := slog.New(slog.DiscardHandler)
	cfg := subscriptions.Config{Node: thisNode, DefaultVPC: "default", Kinds: all}
	return subscriptions.New(cfg, api, reflector.NewSet(rows, api, log), rows, noRecords{}, log), nil
}

// report prints the figures of this process.
func report(out io.Writer, without bool, took time.Duration) error {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return fmt.Errorf("read the use of the CPU: %w", err)
	}
	what := "watches for VPC, Subnets and Addresses"
	if without {
		what = "watches for Addresses"
	}
	const mib = 1 << 20
	cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	_, err := fmt.Fprintf(
		out,
		"%s: heap %.0f MiB, stacks %.0f MiB, maximum of the process %d MiB; %.1f s of CPU, read after %.1f s\n",
		what,
		float64(memory.HeapInuse)/mib,
		float64(memory.StackInuse)/mib,
		usage.Maxrss/1024,
		cpu.Seconds(),
		took.Seconds(),
	)
	return err
}

// noRecords stands for a node without attachments.
type noRecords struct{}

func (noRecords) Records() []journal.Record { return nil }
