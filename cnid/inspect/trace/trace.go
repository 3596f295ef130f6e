// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trace computes the path of a packet from node to node, without sending it: each
// node's daemon runs its programs with the packet.
package trace

import (
	"context"
	"fmt"
	"io"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
)

// maxSteps is above the steps of any packet: the sender's node, its path into the default
// VPC, a node that returns the packet, the sender's again, a divider, a bouncer, and the
// receiver's node.
const maxSteps = 8

// Ask queries the daemon of a node.
type Ask func(ctx context.Context, node string, q nodestatus.Question) (nodestatus.PacketTrace, error)

// Walk queries node and then the following nodes of the path. On an error, it returns the
// earlier steps as well.
func Walk(ctx context.Context, ask Ask, node string, q nodestatus.Question) ([]nodestatus.PacketTrace, error) {
	var steps []nodestatus.PacketTrace
	for range maxSteps {
		step, err := ask(ctx, node, q)
		if err != nil {
			return steps, fmt.Errorf("node %s: %w", node, err)
		}
		steps = append(steps, step)
		if step.Next == nil {
			return steps, nil
		}
		if step.NextNode == "" {
			return steps, fmt.Errorf("node %s: the packet would go on to an address that is no node's", node)
		}
		node, q = step.NextNode, *step.Next
	}
	return steps, fmt.Errorf("the packet would go round in circles: it is still on its way after %d steps", maxSteps)
}

// Delivered reports whether the last step let the packet go on.
func Delivered(steps []nodestatus.PacketTrace) bool {
	return len(steps) > 0 && !steps[len(steps)-1].Dropped
}

// Write prints the path of a packet, step by step.
func Write(out io.Writer, steps []nodestatus.PacketTrace) error {
	for i, step := range steps {
		fmt.Fprintf(out, "%d. node %s, %s\n", i+1, step.Node, step.At)
		fmt.Fprintf(out, "   packet  %s\n", step.Packet)
		for _, fact := range step.Facts {
			fmt.Fprintf(out, "   known   %s\n", fact)
		}
		verdict := "passed "
		if step.Dropped {
			verdict = "DROPPED"
		}
		fmt.Fprintf(out, "   %s %s [%s]\n", verdict, step.Does, step.Reason)
		if step.Remedy != "" {
			fmt.Fprintf(out, "   do      %s\n", step.Remedy)
		}
	}
	end := "The packet stops here."
	if Delivered(steps) {
		end = "The packet gets through."
	}
	_, err := fmt.Fprintln(out, end)
	return err
}
