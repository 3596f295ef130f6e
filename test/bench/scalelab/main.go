// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Scalelab measures how the control plane grows with the number of nodes, draws curves, and
// fails if a bar is missed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/bench/scale"
)

func main() {
	debug.SetGCPercent(garbagePercent) // 1,000 nodes have several GiB in use
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard()) // figures are the output; a failure reports itself
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scalelab:", err)
		stop()
		os.Exit(1)
	}
}

// garbagePercent is the most garbage, in percent of the memory in use.
const garbagePercent = 200

// options of one run.
type options struct {
	root     string
	sizes    []int
	hollow   int
	bouncers int
	pods     int
	// folder is the folder of the drawings and the table; "" makes none.
	folder string
	within time.Duration
}

// bounced is how many VPCs on two nodes get bouncers: 1,000 would take longer than all
// measurements, because each bouncer lists the Addresses of its subnet.
const bounced = 20

const help = `For each number of nodes the lab starts an etcd and an API server, loads Nodes, VPCs, bound
pods and their Addresses, and starts an operator and the control halves of the nodes'
daemons. Hollow nodes run everything of a daemon but what touches a kernel; the others
hold its watches, decode what comes, and answer roll calls. Every VPC has pods on two nodes,
and one VPC has a pod on every node. At first each node has the Addresses of its VPCs, then
the subnets get bouncers.

Measured in both states are:
  - which events nodes receive for a pod of a VPC on two other nodes, and for pods of the
    VPC that is on all nodes;
  - the CPU time of API server, etcd and operator for one pod with its Address;
  - the time from the request for a pod until its node, and all hollow nodes that hold its
    VPC, have it in their plans, at 10 pods/s, and the highest rate that is sustained;
and once what a node reads at its start, the operator's memory, and the time until it is
ready after a restart. The program fails if a bar is missed.`

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
	flags.IntSliceVar(
		&o.sizes,
		"nodes",
		[]int{10, 100, 1000},
		"numbers of nodes, one lab after the other, the largest last",
	)
	flags.IntVar(
		&o.hollow,
		"hollow",
		50,
		"how many nodes run the daemon's control half, at most half of them unless the bouncers need more",
	)
	flags.IntVar(&o.bouncers, "bouncers", 3, "bouncers of each subnet")
	flags.IntVar(
		&o.pods,
		"pods",
		98,
		"pods per node that the lab is loaded with, beside that of the VPC on all nodes; an even number",
	)
	flags.StringVar(&o.folder, "curves", "", "folder in which the curves and the table are written; none are without it")
	flags.DurationVar(
		&o.within,
		"within",
		25*time.Minute,
		"time limit of all labs together; on an idle machine with two processors they need at most 15 minutes",
	)
	return command
}

// measure measures all sizes, and writes its figures after each. Figures measured before a failure
// are printed too.
func measure(ctx context.Context, o options, out io.Writer) error {
	r := run{options: o, began: time.Now()}
	step := func(text string) { fmt.Fprintf(out, "[%6.1fs] %s\n", time.Since(r.began).Seconds(), text) }
	var err error
	if r.machine, err = describe(); err != nil {
		return err
	}
	for _, nodes := range o.sizes {
		result, failure := scale.Measure(ctx, scale.Config{
			Size: scale.Size{
				Nodes:       nodes,
				Hollow:      min(o.hollow, max(nodes/2, 2*o.bouncers)),
				Bouncers:    o.bouncers,
				Bounced:     bounced,
				PodsPerNode: o.pods,
			},
			Root: o.root, Server: apiserver.NewLarge, Step: step,
		})
		r.results = append(r.results, result)
		if failure != nil {
			err = fmt.Errorf("measure %d nodes: %w", nodes, failure)
			step(err.Error())
		}
		if err = errors.Join(err, r.save()); err != nil {
			break
		}
	}
	step("done")
	return errors.Join(err, r.print(out))
}

// print prints the table, and returns an error if a bar is missed.
func (r *run) print(out io.Writer) error {
	if err := scale.Print(out, r.results); err != nil {
		return err
	}
	missed := scale.Missed(r.results)
	for _, bar := range missed {
		fmt.Fprintln(out, "bar missed:", bar)
	}
	if len(missed) > 0 {
		return fmt.Errorf("%d bars are missed", len(missed))
	}
	return nil
}
