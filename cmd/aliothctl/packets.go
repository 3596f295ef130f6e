// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
)

// packetFilter selects packets; an empty vpc or pod selects every one.
type packetFilter struct {
	vpc, pod string
	// routine: also drops of packets that every host sends unasked.
	routine bool
}

// wants reports whether the filter selects a packet, routine or not. A pod matches as
// the owner of the packet's interface, and as either end of the packet.
func (f packetFilter) wants(p nodestatus.Packet) bool {
	if f.vpc != "" && f.vpc != p.VPC {
		return false
	}
	named := []string{p.Pod}
	for _, ends := range []*nodestatus.Ends{p.Came, p.Went} {
		if ends != nil {
			named = append(named, ends.Src.Name, ends.Dst.Name)
		}
	}
	return f.pod == "" || slices.Contains(named, f.pod)
}

// String quotes the names that the filter selects by, so that a misspelt name is seen.
func (f packetFilter) String() string {
	var text string
	if f.vpc != "" {
		text += fmt.Sprintf(" of VPC %q", f.vpc)
	}
	if f.pod != "" {
		text += fmt.Sprintf(" of pod %q", f.pod)
	}
	return text
}

// sample is one of the samples of packets that daemons keep; each has a command.
type sample struct {
	name, path           string
	short, long, example string
	// hasRoutine: some of its packets are routine, and shown on demand.
	hasRoutine bool
	// listens is the default time to listen, for a sample that daemons take only
	// while a client listens.
	listens time.Duration
}

const reachedByAPI = `

The command reaches the nodes through the API server. It needs the rights to list
pods and to create pods/exec in Alioth's namespace.`

func dropsCommand() *cobra.Command {
	return packetsCommand(sample{
		name: "drops", path: nodestatus.DropsPath, hasRoutine: true,
		short: "Show dropped packets: time, node, pod, reason, and what to do",
		long: `Show the latest dropped packets of all nodes: time, node, VPC, pod, source,
destination, reason and remedy. With --follow, the command also shows the
following drops.

The drops are a sample: one packet per interface, reason and second. Metrics and
'aliothctl status' count all drops.

Every host sends some packets by itself that a VPC has no use for: MLD reports,
router solicitations and duplicate address detection. They are dropped, need no
attention, and are shown with --all only.` + reachedByAPI,
		example: `  aliothctl drops --vpc blue --follow
  aliothctl drops --pod shop/cart-7d9f -o json`,
	})
}

func flowsCommand() *cobra.Command {
	return packetsCommand(sample{
		name: "flows", path: nodestatus.FlowsPath, listens: 5 * time.Second,
		short: "Show forwarded flows: VPC, pods, source, destination and nodes",
		long: `Show the forwarded flows of all nodes: time, VPC, pods, source and destination
before and after translation, and the nodes of the tunnel. The command listens for
a few seconds (--for), or with --follow until it is stopped. Flows that were
reported to an earlier client come first.

The flows are a sample: one packet per flow in ten seconds on each node of its
path; and per interface 20 flows per second, with bursts of 100. Nodes take the
sample only while a client listens.` + reachedByAPI,
		example: `  aliothctl flows --vpc blue --follow
  aliothctl flows --pod shop/cart-7d9f --for 30s -o json`,
	})
}

func packetsCommand(s sample) *cobra.Command {
	var node string
	var local bool
	watch := nodestatus.Watch{For: s.listens}
	out := &packetPrinter{of: s, format: options.Text}
	reach, socket := defaultAccess(), cniapi.DefaultSocket
	cmd := &cobra.Command{
		Use: s.name, Short: s.short, Long: s.long, Example: s.example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if watch.For < 0 {
				return fmt.Errorf("--for %s: want 0 or more", watch.For)
			}
			out.out = cmd.OutOrStdout()
			defer func() { out.finish(err == nil) }()
			if local {
				return nodestatus.FetchPackets(cmd.Context(), socket, s.path, watch, out.print)
			}
			c, err := reach.open()
			if err != nil {
				return err
			}
			daemons, err := c.daemons(cmd.Context(), node)
			if err != nil {
				return err
			}
			return c.packets(cmd.Context(), daemons, watch, out)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out.filter.vpc, "vpc", "", "only those of this VPC")
	flags.StringVar(&out.filter.pod, "pod", "", "only those from, to or at this pod, as NAMESPACE/NAME")
	flags.StringVar(&node, "node", "", "query this node only")
	flags.BoolVarP(&watch.Follow, "follow", "f", false, "continue with the following "+s.name)
	if s.hasRoutine {
		flags.BoolVar(
			&out.filter.routine,
			"all",
			false,
			"also routine packets, which every host sends by itself: MLD reports, router solicitations, duplicate address detection",
		)
	}
	if s.listens > 0 {
		flags.DurationVar(
			&watch.For,
			"for",
			s.listens,
			"without --follow, listen for this time; with 0, show only what was reported before",
		)
	}
	flags.BoolVar(&local, "local", false, "query the daemon of the node on which the command runs, without the API server")
	flags.StringVar(&socket, "socket", socket, "socket of that daemon")
	reach.addFlags(cmd)
	options.AddFormat(cmd, &out.format)
	options.Complete(cmd, &reach.kubeconfig)
	return cmd
}

// packetPrinter prints packets of several nodes.
type packetPrinter struct {
	of     sample
	filter packetFilter
	format string

	mu  sync.Mutex
	out io.Writer
	// printed counts printed packets, left omitted routine ones.
	printed, left int
}

// finish prints the number of omitted packets. complete: all nodes have answered, so that an empty
// list is certain.
func (p *packetPrinter) finish(complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.format != options.Text:
	case p.left == 0 && p.printed == 0 && complete:
		fmt.Fprintf(p.out, "(no %s%s)\n", p.of.name, p.filter)
	case p.left > 0:
		fmt.Fprintf(
			p.out,
			"(%d routine %s left out: MLD reports, router solicitations, duplicate address detection; --all shows them)\n",
			p.left,
			p.of.name,
		)
	}
}

func (p *packetPrinter) print(packet nodestatus.Packet) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if packet.Missed > 0 && p.format == options.Text {
		fmt.Fprintf(p.out, "(%d %s of node %s were lost: they came too fast)\n", packet.Missed, p.of.name, packet.Node)
	}
	switch {
	case !p.filter.wants(packet):
		return nil
	case packet.Routine && !p.filter.routine:
		p.left++
		return nil
	}
	p.printed++
	if p.format == options.JSON {
		return json.NewEncoder(p.out).Encode(packet)
	}
	_, err := fmt.Fprintln(p.out, packet)
	return err
}

// packets queries all daemons in parallel. A node that does not answer delays no
// other one. Without Follow, the packets of all nodes are sorted by time.
func (c *cluster) packets(
	ctx context.Context,
	daemons map[string]*corev1.Pod,
	watch nodestatus.Watch,
	out *packetPrinter,
) error {
	var (
		mu     sync.Mutex
		sorted []nodestatus.Packet
		errs   []error
		group  sync.WaitGroup
	)
	each := out.print
	if !watch.Follow {
		each = func(packet nodestatus.Packet) error {
			mu.Lock()
			defer mu.Unlock()
			sorted = append(sorted, packet)
			return nil
		}
	}
	for node, pod := range daemons {
		group.Go(func() {
			if err := c.packetsOf(ctx, pod, out.of, watch, each); err != nil && ctx.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("node %s: %w", node, err))
			}
		})
	}
	group.Wait()
	slices.SortStableFunc(sorted, func(a, b nodestatus.Packet) int { return a.Time.Compare(b.Time) })
	for _, packet := range sorted {
		if err := out.print(packet); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// packetsOf reads the packets of one daemon.
func (c *cluster) packetsOf(
	ctx context.Context,
	pod *corev1.Pod,
	of sample,
	watch nodestatus.Watch,
	each func(nodestatus.Packet) error,
) error {
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := nodestatus.DecodePackets(read, each)
		read.CloseWithError(err)
		done <- err
	}()
	command := []string{"aliothctl", of.name, "--local", "--output=json", fmt.Sprintf("--follow=%t", watch.Follow)}
	if of.hasRoutine {
		command = append(command, "--all")
	}
	if of.listens > 0 {
		command = append(command, "--for="+watch.For.String())
	}
	err := c.exec.Run(ctx, pod, write, command...)
	write.Close()
	return errors.Join(err, <-done)
}
