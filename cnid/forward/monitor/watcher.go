// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitor listens to kernel notifications of changes on the node.
package monitor

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// hintEvery is the minimum time between two rechecks because of changes in the kernel.
const hintEvery = time.Second

// Watcher listens to kernel notifications, and requests a recheck if a change may
// concern this node. The next periodic recheck finds changes without a notification.
type Watcher struct {
	node Node
	log  *slog.Logger
}

// Node has the objects of the node.
type Node interface {
	// Managed returns the objects that only Alioth changes.
	Managed() Managed
	// Recheck requests a recheck. It does not block.
	Recheck()
}

// New returns a watcher of the managed objects of a node.
func New(node Node, log *slog.Logger) *Watcher { return &Watcher{node: node, log: log} }

// Managed has the objects of the node that only Alioth changes.
type Managed struct {
	// Records are the records of complete attachments that are not being removed.
	Records []journal.Record
	// Devices are the indexes of the devices that always exist, and the index of the
	// underlay device.
	Devices []int
}

// holds returns the record with that device, if there is one.
func (m Managed) holds(index int) (journal.Record, bool) {
	at := slices.IndexFunc(m.Records, func(rec journal.Record) bool { return rec.Device.HostIfindex == index })
	if at < 0 {
		return journal.Record{}, false
	}
	return m.Records[at], true
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	hints := make(chan struct{}, 1)
	routes := []uint32{
		unix.RTNLGRP_LINK, unix.RTNLGRP_TC, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
	}
	judge := linkJudge{}
	var held Managed
	go listen(
		ctx,
		unix.NETLINK_ROUTE,
		routes,
		hints,
		func() { held = w.node.Managed() },
		func(messages []syscall.NetlinkMessage, whole bool) bool {
			return judge.concerned(messages, held, whole)
		},
		w.log,
	)
	go listen(
		ctx,
		unix.NETLINK_NETFILTER,
		[]uint32{unix.NFNLGRP_NFTABLES},
		hints,
		func() {},
		func(messages []syscall.NetlinkMessage, _ bool) bool {
			return slices.ContainsFunc(
				messages,
				func(m syscall.NetlinkMessage) bool { return filterConcerns(m, netfilter.TableName) },
			)
		},
		w.log,
	)
	pass(ctx, hints, w.node.Recheck)
}

// filterConcerns reports whether a message of nf_tables is about a table.
func filterConcerns(m syscall.NetlinkMessage, table string) bool {
	switch m.Header.Type & 0xff {
	case unix.NFT_MSG_NEWTABLE,
		unix.NFT_MSG_DELTABLE,
		unix.NFT_MSG_NEWCHAIN,
		unix.NFT_MSG_DELCHAIN,
		unix.NFT_MSG_NEWRULE,
		unix.NFT_MSG_DELRULE:
	default:
		return false
	}
	const nfgenmsgSize = 4 // of struct nfgenmsg
	// Tables, chains and rules have their table's name in the same attribute.
	name := attribute(m.Data, nfgenmsgSize, unix.NFTA_TABLE_NAME)
	return string(bytes.TrimRight(name, "\x00")) == table
}

// deletedRouteConcerns excludes the routes of attachments that are being removed.
func deletedRouteConcerns(m syscall.NetlinkMessage, o Managed) bool {
	if len(m.Data) < unix.SizeofRtMsg || m.Data[5] != netdev.RouteProtocol { // rtm_protocol
		return false
	}
	index := attribute(m.Data, unix.SizeofRtMsg, unix.RTA_OIF)
	if len(index) == 4 && slices.Contains(o.Devices, int(binary.NativeEndian.Uint32(index))) {
		return true
	}
	dst, ok := netip.AddrFromSlice(attribute(m.Data, unix.SizeofRtMsg, unix.RTA_DST))
	return ok &&
		slices.ContainsFunc(o.Records, func(rec journal.Record) bool { return rec.Shadow4 == dst || rec.Shadow6 == dst })
}

// attribute returns the value of a netlink attribute behind a message's header
// of that size, or nil.
func attribute(data []byte, header int, kind uint16) []byte {
	const (
		size = 4         // of struct nlattr
		mask = 1<<14 - 1 // NLA_TYPE_MASK
	)
	for data = data[min(header, len(data)):]; len(data) >= size; {
		length := int(binary.NativeEndian.Uint16(data))
		if length < size || length > len(data) {
			return nil
		}
		if binary.NativeEndian.Uint16(data[2:])&mask == kind {
			return data[size:length]
		}
		data = data[min((length+size-1)&^(size-1), len(data)):]
	}
	return nil
}
