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

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/cnid/cniapi"
	"github.com/alioth-net/alioth/cnid/nodestatus"
)

// dropFilter says which drops are asked for; an empty field is every one.
type dropFilter struct{ vpc, pod string }

// wants tells whether a drop is asked for. A pod is meant wherever it is named:
// at whose interface the packet was dropped, and as either end.
func (f dropFilter) wants(d nodestatus.Drop) bool {
	if f.vpc != "" && f.vpc != d.VPC {
		return false
	}
	named := []string{d.Pod}
	for _, ends := range []*nodestatus.Ends{d.Came, d.Went} {
		if ends != nil {
			named = append(named, ends.Src.Name, ends.Dst.Name)
		}
	}
	return f.pod == "" || slices.Contains(named, f.pod)
}

func dropsCommand() *cobra.Command {
	var filter dropFilter
	var node string
	var follow, local bool
	reach, socket, format := defaultAccess(), cniapi.DefaultSocket, asText
	cmd := &cobra.Command{
		Use:   "drops",
		Short: "Show dropped packets: when, where, whose, why, and what to do",
		Long: `Show the latest dropped packets of all nodes: when, where, of which VPC and pod,
from where to where, why, and what can be done about it. With --follow, go on
with those to come.

It is a sample: of each interface and reason, one packet in a second. Metrics and
'aliothctl status' count all of them.

The nodes are asked through the API server. It takes the right to list pods, and
to create pods/exec, in Alioth's namespace.`,
		Example: `  aliothctl drops --vpc blue --follow
  aliothctl drops --pod shop/cart-7d9f -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := &dropPrinter{filter: filter, format: format, out: cmd.OutOrStdout()}
			if local {
				return nodestatus.FetchDrops(cmd.Context(), socket, follow, out.print)
			}
			c, err := reach.open()
			if err != nil {
				return err
			}
			daemons, err := c.daemons(cmd.Context(), node)
			if err != nil {
				return err
			}
			return c.drops(cmd.Context(), daemons, follow, out)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&filter.vpc, "vpc", "", "only those of this VPC")
	flags.StringVar(&filter.pod, "pod", "", "only those from, to or at this pod, as NAMESPACE/NAME")
	flags.StringVar(&node, "node", "", "ask this node alone")
	flags.BoolVarP(&follow, "follow", "f", false, "go on with the drops to come")
	flags.BoolVar(&local, "local", false, "ask the daemon of the node on which this runs, without the API server")
	flags.StringVar(&socket, "socket", socket, "socket of that daemon")
	reach.addFlags(cmd)
	addFormat(cmd, &format)
	complete(cmd, &reach.kubeconfig)
	return cmd
}

// dropPrinter prints drops of several nodes.
type dropPrinter struct {
	filter dropFilter
	format string

	mu  sync.Mutex
	out io.Writer
}

func (p *dropPrinter) print(drop nodestatus.Drop) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if drop.Missed > 0 && p.format == asText {
		fmt.Fprintf(p.out, "(%d drops of node %s came too fast and are not shown)\n", drop.Missed, drop.Node)
	}
	if !p.filter.wants(drop) {
		return nil
	}
	if p.format == asJSON {
		return json.NewEncoder(p.out).Encode(drop)
	}
	_, err := fmt.Fprintln(p.out, drop)
	return err
}

// drops asks daemons at the same time. A node that does not answer keeps no other
// from it. Without follow, the drops of all nodes come in the order of time.
func (c *cluster) drops(ctx context.Context, daemons map[string]*corev1.Pod, follow bool, out *dropPrinter) error {
	var (
		mu     sync.Mutex
		sorted []nodestatus.Drop
		errs   []error
		group  sync.WaitGroup
	)
	each := out.print
	if !follow {
		each = func(drop nodestatus.Drop) error {
			mu.Lock()
			defer mu.Unlock()
			sorted = append(sorted, drop)
			return nil
		}
	}
	for node, pod := range daemons {
		group.Go(func() {
			if err := c.dropsOf(ctx, pod, follow, each); err != nil && ctx.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("node %s: %w", node, err))
			}
		})
	}
	group.Wait()
	slices.SortStableFunc(sorted, func(a, b nodestatus.Drop) int { return a.Time.Compare(b.Time) })
	for _, drop := range sorted {
		if err := out.print(drop); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// dropsOf reads what one daemon tells.
func (c *cluster) dropsOf(ctx context.Context, pod *corev1.Pod, follow bool, each func(nodestatus.Drop) error) error {
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := nodestatus.DecodeDrops(read, each)
		read.CloseWithError(err)
		done <- err
	}()
	err := c.exec.Run(ctx, pod, write, "aliothctl", "drops", "--local", "--output=json", fmt.Sprintf("--follow=%t", follow))
	write.Close()
	return errors.Join(err, <-done)
}
