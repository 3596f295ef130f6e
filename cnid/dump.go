// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/cnid/netfilter"
	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// dump reads what this node holds. What can't be read does not keep the rest
// from being told.
func (n *node) dump(ctx context.Context) nodestatus.Dump {
	d := nodestatus.Dump{Status: n.syncer.status(), Config: n.plan, Departed: n.held.Departed()}
	d.Config.Reserved = slices.Concat(n.plan.Reserved, n.apiHost.Addresses())
	for key, err := range n.attachments.Inspect(ctx) {
		d.Broken = append(d.Broken, nodestatus.Broken{ContainerID: key.ContainerID, IfName: key.IfName, What: err.Error()})
	}
	slices.SortFunc(d.Broken, func(a, b nodestatus.Broken) int {
		return cmp.Or(cmp.Compare(a.ContainerID, b.ContainerID), cmp.Compare(a.IfName, b.IfName))
	})
	note := func(err error) {
		if err != nil {
			d.Unreadable = append(d.Unreadable, err.Error())
		}
	}
	var err error
	d.Links, err = ownLinks()
	note(err)
	d.Datapath, err = pinnedState(n.cfg.BPFDir)
	note(err)
	d.Hooks, err = datapath.ReadHooks(n.cfg.BPFDir)
	note(err)
	_, err = netfilter.Counters()
	note(err)
	return d
}

// pinnedState opens the pins anew: a map whose pin was deleted goes on working
// for this process, and for no later one.
func pinnedState(pinDir string) (s state.State, err error) {
	reader, err := datapath.OpenReader(pinDir)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	return reader.Snapshot()
}

// ownLinks lists the devices of the node with a name of Alioth's.
func ownLinks() ([]nodestatus.Link, error) {
	all, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	var own []nodestatus.Link
	for _, link := range all {
		attrs := link.Attrs()
		if !netdev.OwnName(attrs.Name) {
			continue
		}
		own = append(own, nodestatus.Link{Name: attrs.Name, Index: attrs.Index, Up: attrs.Flags&net.FlagUp != 0})
	}
	slices.SortFunc(own, func(a, b nodestatus.Link) int { return strings.Compare(a.Name, b.Name) })
	return own, nil
}
