// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// root of the work tree, seen from this package's folder.
const root = "../../.."

// suite is all tests of this package, on one lab.
var suite = stage.NewSuiteOn("hardware", root, cluster.HardwareLab(root))

func TestMain(m *testing.M) {
	// Beside other tests the emulated processor gets a small part of a real one.
	stage.Patience = 5 * time.Minute
	os.Exit(suite.Main(m))
}

// env is the environment of every test.
type env struct{ *stage.Env }

// start returns the shared lab, or fails the test; see stage.Suite.Start.
func start(t *testing.T) *env {
	t.Helper()
	return &env{suite.Start(t)}
}

// guest returns the name of the node that is a virtual machine. usual is the name of a node with
// the kernel of this machine.
func (e *env) guest() string { _, second := e.Nodes(); return second }
func (e *env) usual() string { first, _ := e.Nodes(); return first }

// device is the interface of all nodes on the lab's second segment; on the virtual
// machine it is the adapter with virtual functions.
const device = underlay.SecondLink

// realIP has busybox's shell run the program of iproute2 instead of its own.
const realIP = `ip() { for at in /usr/sbin/ip /sbin/ip /bin/ip; do [ -L $at ] || [ ! -x $at ] || { $at "$@"; return; }; done; return 127; }
`

// onGuest runs a shell's line on the virtual machine and returns its output.
func (e *env) onGuest(t *testing.T, line string) string {
	t.Helper()
	return strings.TrimSpace(e.OnNode(t, e.guest(), "sh", "-ec", realIP+line))
}
