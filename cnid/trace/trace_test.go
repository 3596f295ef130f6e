// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/nodestatus"
)

// route answers for each node what it is told to.
func route(hops map[string]nodestatus.Hop) Ask {
	return func(_ context.Context, node string, _ nodestatus.Question) (nodestatus.Hop, error) {
		hop, ok := hops[node]
		if !ok {
			return hop, errors.New("connection refused")
		}
		hop.Node = node
		return hop, nil
	}
}

func TestAWalkEndsWhereThePacketDoes(t *testing.T) {
	on := func(node string) nodestatus.Hop {
		return nodestatus.Hop{NextNode: node, Next: &nodestatus.Question{}, Reason: "forwarded_remote", Does: "sent on"}
	}
	arrived := nodestatus.Hop{Reason: "forwarded_local", Does: "delivered to pod ns/p"}
	dropped := nodestatus.Hop{Reason: "no_endpoint", Does: "nobody has it", Remedy: "look for the pod", Dropped: true}
	for _, c := range []struct {
		name      string
		hops      map[string]nodestatus.Hop
		delivered bool
		says      []string
		fails     string
	}{
		{"on one node", map[string]nodestatus.Hop{"a": arrived}, true, []string{"1. node a", "delivered to pod ns/p", "gets through"}, ""},
		{"on the next", map[string]nodestatus.Hop{"a": on("b"), "b": arrived}, true, []string{"2. node b", "gets through"}, ""},
		{
			"dropped on the next",
			map[string]nodestatus.Hop{"a": on("b"), "b": dropped},
			false,
			[]string{"DROPPED nobody has it [no_endpoint]", "look for the pod", "stops here"},
			"",
		},
		{"the next does not answer", map[string]nodestatus.Hop{"a": on("b")}, true, []string{"1. node a"}, "node b: connection refused"},
		{"nowhere", map[string]nodestatus.Hop{"a": on("")}, true, []string{"1. node a"}, "no node's"},
		{"in circles", map[string]nodestatus.Hop{"a": on("b"), "b": on("a")}, true, []string{"5. node a"}, "in circles"},
	} {
		t.Run(c.name, func(t *testing.T) {
			hops, err := Walk(t.Context(), route(c.hops), "a", nodestatus.Question{})
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("error is %v, want %q", err, c.fails)
			}
			if Delivered(hops) != c.delivered {
				t.Errorf("delivered is %t", !c.delivered)
			}
			var out strings.Builder
			if err := Write(&out, hops); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the output lacks %q:\n%s", want, out.String())
				}
			}
		})
	}
	if Delivered(nil) {
		t.Error("no hop at all is no delivery")
	}
}
