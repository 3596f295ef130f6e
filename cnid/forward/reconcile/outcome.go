// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"

	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// outcome is the result of a pass.
type outcome struct {
	// upTo and revision are the requests and the revision of the store that the
	// pass included.
	upTo, revision uint64
	// failed are the devices that could not be set up, by index; lost are those that
	// must not be set up, see plan.Wanted.
	failed map[int]error
	lost   []plan.Lost
	closed []plan.ClosedPort
	// missing are the attachments whose device is gone from the node.
	missing []journal.Record
	// roles holds the report about roles.
	roles plan.Roles
	// mtu is the MTU of the node's network for pods, in bytes; devices are the indexes
	// of the devices that exist always, and of the underlay.
	mtu     int
	devices []int
	// err is the error of the node as a whole.
	err error
}

// failure is the reason for another attempt, or nil.
func (o outcome) failure() error { return errors.Join(o.err, together(o.failed)) }
