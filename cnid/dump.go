// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"cmp"
	"context"
	"slices"

	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/cnid/nodestatus/convert"
	"github.com/alioth-net/alioth/cnid/observe"
)

// dump reads what this node holds. What can't be read does not keep the rest
// from being told.
func (n *node) dump(ctx context.Context) nodestatus.Dump {
	d := nodestatus.Dump{Status: n.syncer.status(), Config: convert.Settings(n.plan), Departed: convert.Attachments(n.held.Departed())}
	d.Config.Reserved = slices.Concat(n.plan.Reserved, n.apiHost.Addresses())
	for key, err := range n.attachments.Inspect(ctx) {
		d.Broken = append(d.Broken, nodestatus.Broken{ContainerID: key.ContainerID, IfName: key.IfName, What: err.Error()})
	}
	slices.SortFunc(d.Broken, func(a, b nodestatus.Broken) int {
		return cmp.Or(cmp.Compare(a.ContainerID, b.ContainerID), cmp.Compare(a.IfName, b.IfName))
	})
	observe.ReadNode(n.cfg.BPFDir, &d)
	return d
}
