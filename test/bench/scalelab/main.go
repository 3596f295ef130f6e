// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Scalelab measures how the control plane grows with the number of nodes, and draws curves.
// A bar that is missed is printed as such and is no error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/alioth-net/alioth/test/bench/scale"
)

func main() {
	ctrllog.SetLogger(logr.Discard()) // figures are the output; what fails says so itself
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scalelab:", err)
		stop()
		os.Exit(1)
	}
}

// options of one run.
type options struct {
	root   string
	sizes  []int
	hollow int
	pods   int
	// curves is the folder for the drawings; "" makes none.
	curves string
	within time.Duration
}

const help = `For each number of nodes the lab starts an etcd and an API server, loads Nodes, VPCs, bound
pods and their Addresses, and starts an operator and the control halves of the nodes'
daemons. Hollow nodes run everything of a daemon but what touches a kernel; the others
hold its watches, decode what comes, and answer roll calls. Every VPC has pods on two nodes,
and one VPC has a pod on every node.

Measured are:
  - what a node reads at its start, and which events it receives for a pod of a VPC on
    two other nodes, and for pods of the VPC that is on all nodes;
  - the CPU time of API server, etcd and operator for one pod with its Address;
  - the time from the request for a pod until its node, and all hollow nodes, have it in
    their plans, at 10 pods/s, and the highest rate that is sustained;
  - the operator's memory, and the time until it is ready after a restart.`

func command() *cobra.Command {
	o := options{}
	command := &cobra.Command{
		Use:           "scalelab",
		Short:         "Measure the control plane over the number of nodes",
		Long:          "Measure the control plane over the number of nodes.\n\n" + help,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), o.within)
			defer cancel()
			return measure(ctx, o, command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.root, "root", ".", "root folder of the work tree")
	flags.IntSliceVar(&o.sizes, "nodes", []int{10, 100, 1000}, "numbers of nodes, one lab after the other")
	flags.IntVar(&o.hollow, "hollow", 50, "how many nodes run the daemon's control half, at most half of them")
	flags.IntVar(&o.pods, "pods", 98, "pods per node that the lab is loaded with, beside that of the VPC on all nodes; an even number")
	flags.StringVar(&o.curves, "curves", "", "folder in which the curves are written; none are without it")
	flags.DurationVar(&o.within, "within", 15*time.Minute, "time limit of all labs together")
	return command
}

// measure measures all sizes. What was measured before a failure is printed too.
func measure(ctx context.Context, o options, out io.Writer) error {
	began := time.Now()
	step := func(text string) { fmt.Fprintf(out, "[%6.1fs] %s\n", time.Since(began).Seconds(), text) }
	var results []scale.Result
	var failure error
	for _, nodes := range o.sizes {
		size := scale.Size{Nodes: nodes, Hollow: min(o.hollow, nodes/2), PodsPerNode: o.pods}
		r, err := scale.Measure(ctx, o.root, size, step)
		if err != nil {
			failure = fmt.Errorf("measure %d nodes: %w", nodes, err)
			break
		}
		results = append(results, r)
	}
	return errors.Join(failure, scale.Print(out, results), draw(o.curves, results))
}

// draw writes the curves of results into a folder.
func draw(folder string, results []scale.Result) error {
	if folder == "" || len(results) == 0 {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder of the curves: %w", err)
	}
	for name, chart := range scale.Charts(results) {
		if err := os.WriteFile(filepath.Join(folder, name+".svg"), []byte(chart.SVG()), 0o644); err != nil {
			return fmt.Errorf("write a curve: %w", err)
		}
	}
	return nil
}
