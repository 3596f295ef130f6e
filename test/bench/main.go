// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Bench measures Alioth on the lab and prints every figure as a ratio to a reference that was
// measured in the same run, interleaved with it: underlay hosts without pods, Linux bridge with
// kernel VXLAN, a bare veth pair, and the reference CNI plugins bridge and host-local, and
// kube-proxy. The operator's rates are measured against an API server without nodes, and held
// against plain bars. A missed bar is printed as such, and the command still succeeds.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	ctrllog.SetLogger(logr.Discard()) // figures are the output; a failure reports itself
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// options of one run.
type options struct {
	root   string
	rounds int
	// span is how long one rate is measured.
	span  time.Duration
	parts []string
	pods  int
	// profile is the folder for CPU profiles; "" makes none.
	profile string
}

func (o options) has(part string) bool { return slices.Contains(o.parts, part) }

var allParts = []string{
	"operator",
	"admission",
	"scale",
	"services",
	"backends",
	"datapath",
	"pods",
	"interfaces",
	"reach",
}

// servicesHelp is the help text of the part "services".
const servicesHelp = `The part "services" measures Services on nodes without a kubelet, whose pods are
network namespaces, with a real API server:
  - the rate of TCP connections with one request each (opened, one byte there and
    back, reset), and the time of a round trip on one connection, between two pods
    of one node: to the ClusterIP and to the backend's own address; translated at
    the socket, and translated in packets for a namespace without socket hooks, as
    for a virtual machine;
  - the same on a node whose VPC has 5 Services, and on one whose VPC has 5,000;
  - the same through kube-proxy in nftables mode on a Linux bridge, with as many
    Services;
  - what one changed EndpointSlice costs the daemon with 5,000 Services of 4
    backends, from the API's answer until it is in the maps; and what a first pass
    takes, with empty maps; and what a changed slice costs when all Services have a
    node port;
  - what the maps of services take of the kernel's memory.
Rates with translation in packets, and those compared with them, use 1,000 source
ports in turn: a pod has at most 2,048 flows at a time in the table.`

func command() *cobra.Command {
	o := options{}
	command := &cobra.Command{
		Use:           "bench",
		Short:         "Measure Alioth against references in the same run",
		Long:          "Measure Alioth against references in the same run.\n\n" + servicesHelp,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			for _, part := range o.parts {
				if !slices.Contains(allParts, part) {
					return fmt.Errorf("unknown part %q: want some of %s", part, strings.Join(allParts, ","))
				}
			}
			return run(command.Context(), o, command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.root, "root", ".", "root folder of the work tree")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds; each figure is the median of as many")
	flags.DurationVar(&o.span, "span", 2*time.Second, "how long one rate is measured")
	flags.StringSliceVar(&o.parts, "parts", allParts, "what to measure")
	flags.IntVar(&o.pods, "pods", 60, "pods of one wave")
	flags.StringVar(&o.profile, "profile", "", "folder for CPU profiles of the API server while claims are made")
	return command
}
