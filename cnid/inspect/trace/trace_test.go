// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
)

// route returns the configured answer of each node.
func route(steps map[string]nodestatus.PacketTrace) Ask {
	return func(_ context.Context, node string, _ nodestatus.Question) (nodestatus.PacketTrace, error) {
		step, ok := steps[node]
		if !ok {
			return step, errors.New("connection refused")
		}
		step.Node = node
		return step, nil
	}
}

func TestTraceWalk_EachPacket_EndsWherePacketEnds(t *testing.T) {
	on := func(node string) nodestatus.PacketTrace {
		return nodestatus.PacketTrace{NextNode: node, Next: &nodestatus.Question{}, Reason: "forwarded_remote", Does: "sent on"}
	}
	arrived := nodestatus.PacketTrace{Reason: "forwarded_local", Does: "delivered to pod ns/p"}
	dropped := nodestatus.PacketTrace{Reason: "no_endpoint", Does: "nobody has it", Remedy: "look for the pod", Dropped: true}
	for _, c := range []struct {
		name      string
		steps     map[string]nodestatus.PacketTrace
		delivered bool
		says      []string
		fails     string
	}{
		{"on one node", map[string]nodestatus.PacketTrace{"a": arrived}, true, []string{"1. node a", "delivered to pod ns/p", "gets through"}, ""},
		{"on the next", map[string]nodestatus.PacketTrace{"a": on("b"), "b": arrived}, true, []string{"2. node b", "gets through"}, ""},
		{
			"dropped on the next",
			map[string]nodestatus.PacketTrace{"a": on("b"), "b": dropped},
			false,
			[]string{"DROPPED nobody has it [no_endpoint]", "look for the pod", "stops here"},
			"",
		},
		{"the next does not answer", map[string]nodestatus.PacketTrace{"a": on("b")}, true, []string{"1. node a"}, "node b: connection refused"},
		{"nowhere", map[string]nodestatus.PacketTrace{"a": on("")}, true, []string{"1. node a"}, "no node's"},
		{"in circles", map[string]nodestatus.PacketTrace{"a": on("b"), "b": on("a")}, true, []string{"5. node a"}, "in circles"},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps, err := Walk(t.Context(), route(c.steps), "a", nodestatus.Question{})
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("error is %v, want %q", err, c.fails)
			}
			if Delivered(steps) != c.delivered {
				t.Errorf("delivered is %t", !c.delivered)
			}
			var out strings.Builder
			if err := Write(&out, steps); err != nil {
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
		t.Error("no step at all is no delivery")
	}
}
