// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trace follows a packet that nobody sends from node to node: each node's
// daemon says what its programs would do with it.
package trace

import (
	"context"
	"fmt"
	"io"

	"github.com/alioth-net/alioth/cnid/nodestatus"
)

// maxHops is more than any packet makes: the sender's node, its way into the
// default VPC, and the receiver's node.
const maxHops = 5

// Ask asks the daemon of a node.
type Ask func(ctx context.Context, node string, q nodestatus.Question) (nodestatus.Hop, error)

// Walk asks node and then every node to which the packet goes on. On an error, it
// returns the hops before it as well.
func Walk(ctx context.Context, ask Ask, node string, q nodestatus.Question) ([]nodestatus.Hop, error) {
	var hops []nodestatus.Hop
	for range maxHops {
		hop, err := ask(ctx, node, q)
		if err != nil {
			return hops, fmt.Errorf("node %s: %w", node, err)
		}
		hops = append(hops, hop)
		if hop.Next == nil {
			return hops, nil
		}
		if hop.NextNode == "" {
			return hops, fmt.Errorf("node %s: the packet would go on to an address that is no node's", node)
		}
		node, q = hop.NextNode, *hop.Next
	}
	return hops, fmt.Errorf("the packet would go round in circles: it is still on its way after %d hops", maxHops)
}

// Delivered reports whether the last hop let the packet go on.
func Delivered(hops []nodestatus.Hop) bool { return len(hops) > 0 && !hops[len(hops)-1].Dropped }

// Write prints the path of a packet, hop by hop.
func Write(out io.Writer, hops []nodestatus.Hop) error {
	for i, hop := range hops {
		fmt.Fprintf(out, "%d. node %s, %s\n", i+1, hop.Node, hop.At)
		fmt.Fprintf(out, "   packet  %s\n", hop.Packet)
		for _, fact := range hop.Facts {
			fmt.Fprintf(out, "   known   %s\n", fact)
		}
		verdict := "passed "
		if hop.Dropped {
			verdict = "DROPPED"
		}
		fmt.Fprintf(out, "   %s %s [%s]\n", verdict, hop.Does, hop.Reason)
		if hop.Remedy != "" {
			fmt.Fprintf(out, "   do      %s\n", hop.Remedy)
		}
	}
	end := "The packet stops here."
	if Delivered(hops) {
		end = "The packet gets through."
	}
	_, err := fmt.Fprintln(out, end)
	return err
}
