// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/plan"
)

// outcome is how a pass went.
type outcome struct {
	// upTo and revision are the requests and the revision of the store that the
	// pass included.
	upTo, revision uint64
	// failed are the devices that could not be set up, by index; lost are those
	// that must not be, see plan.Wanted.
	failed map[int]error
	lost   []plan.Lost
	closed []plan.ClosedPort
	// missing are the attachments whose device is gone from the node.
	missing []journal.Record
	// mtu is what the node's network carries of pods, in bytes; devices are the indexes
	// of those that exist always, and of the underlay.
	mtu     int
	devices []int
	// err concerns the node as a whole.
	err error
}

// failure is why to try again, or nil.
func (o outcome) failure() error { return errors.Join(o.err, together(o.failed)) }
