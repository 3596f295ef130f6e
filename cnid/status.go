// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"cmp"
	"context"
	"slices"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus/convert"
	"github.com/alioth-net/alioth/cnid/lifecycle/install"
)

// status returns what `aliothctl status` shows of this node.
func (d *daemon) status(ctx context.Context) nodestatus.Status {
	synced, _ := d.synced()
	mtu, _ := d.progress.PodMTU()
	return nodestatus.Status{
		Node: d.cfg.NodeName, Version: version.Get().String(), Plugin: install.PluginVersion(ctx, d.cfg.CNIBinDir),
		Synced: synced, Programmed: mtu != 0, PodMTU: mtu,
		Attachments: convert.Attachments(d.journal.Records()), Releasing: convert.Attachments(d.journal.Releases()), Problem: d.progress.Problem(), Warnings: d.checker.Warnings(),
	}
}

// dumpStatus adds the node's status and the configuration of its plan to a dump.
func (d *daemon) dumpStatus(ctx context.Context, dump *nodestatus.Dump) {
	dump.Status, dump.Config = d.status(ctx), convert.Settings(d.plan)
	dump.Tables = convert.Tables(d.tables())
	dump.Config.Reserved = slices.Concat(d.plan.Reserved, d.apiHost.Addresses())
}

// dumpAttachments adds errors of attachments, and reserved attachments, to a dump.
func (d *daemon) dumpAttachments(ctx context.Context, dump *nodestatus.Dump) {
	dump.Removed = convert.Attachments(d.held.Removed())
	for key, err := range d.attachments.Inspect(ctx) {
		dump.Broken = append(dump.Broken, nodestatus.Broken{ContainerID: key.ContainerID, IfName: key.IfName, What: err.Error()})
	}
	slices.SortFunc(dump.Broken, func(a, b nodestatus.Broken) int {
		return cmp.Or(cmp.Compare(a.ContainerID, b.ContainerID), cmp.Compare(a.IfName, b.IfName))
	})
}
