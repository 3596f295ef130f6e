// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"os/exec"
	"testing"
)

// Cable lays a cable between the first two nodes for the time of a test, for a network
// without Alioth. Both ends have its name.
func (e *Env) Cable(t *testing.T, name string) {
	t.Helper()
	first, second := e.Nodes()
	step := exec.Command("ip", "link", "add", name, "netns", e.Lab.NodeNetNS(first), "type", "veth", "peer", "name", name, "netns", e.Lab.NodeNetNS(second))
	if out, err := step.CombinedOutput(); err != nil {
		t.Fatalf("lay a cable: %v: %s", err, out)
	}
	t.Cleanup(func() { e.OnNode(t, first, "ip", "link", "del", name) })
	for _, node := range []string{first, second} {
		e.OnNode(t, node, "ip", "link", "set", name, "up")
	}
}
