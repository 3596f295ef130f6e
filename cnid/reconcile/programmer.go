// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"github.com/alioth-net/alioth/cnid/finding"
	"github.com/alioth-net/alioth/cnid/netfilter/foreign"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/store"
)

// Programmer is what a Loop programs. A Kernel is one. The scale lab (test/bench/scale)
// has one without a kernel, so that a machine runs the rest of many daemons.
//
// The Loop calls Survey from a second goroutine, everything else from one.
type Programmer interface {
	// Prepare makes the devices that exist always and opens the datapath, for this Node
	// object; nil if that is not known. Only a thorough call checks what exists.
	Prepare(self *store.Node, thorough bool) error
	// Made is what the last Prepare has made, also if it failed afterwards.
	Made() Made
	// Existing returns the indexes of those of the devices that exist, by name.
	Existing(names []string) (map[string]int, error)
	// Apply programs a plan. It returns the errors of single devices by their index, and
	// that of the node as a whole.
	Apply(want plan.Wanted, look Scope) (map[int]error, error)
	// TakeRepairs returns what was repaired since the last call.
	TakeRepairs() []finding.Repair
	// Traffic is the traffic that the host must let through.
	Traffic() foreign.Traffic
	// Survey reports whether what passes have programmed was changed by others. It
	// changes nothing.
	Survey() (harmed bool, err error)
}

// Made is what exists of a node's network beside the devices of pods.
type Made struct {
	// PodMTU is the MTU for pods in bytes, 0 before the first Prepare.
	PodMTU int
	// NodePeer is plan.Input.NodePeer. Devices are the indexes of the devices that exist
	// always, and of the underlay.
	NodePeer int
	Devices  []int
}
