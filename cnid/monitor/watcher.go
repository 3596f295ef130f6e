// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitor listens to what the kernel tells of changes on the node.
package monitor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/cnid/netfilter"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// hintEvery is how long at least lies between two rechecks that changes in the
// kernel ask for.
const hintEvery = time.Second

// Watcher listens to what the kernel tells of changes, and asks for a recheck
// when one may concern this node. What is missed, the next recheck finds that
// comes by itself.
type Watcher struct {
	managed func() Managed
	// recheck asks for one. It does not block.
	recheck func()
	log     *slog.Logger
}

// New returns a watcher of what is managed, which asks for a recheck without waiting
// for it.
func New(managed func() Managed, recheck func(), log *slog.Logger) *Watcher {
	return &Watcher{managed: managed, recheck: recheck, log: log}
}

// Managed is what only Alioth changes on the node.
type Managed struct {
	// Records are those of the attachments that are here to stay.
	Records []journal.Record
	// Devices are the indexes of the devices that exist always, and that of the
	// underlay.
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
	go w.listen(ctx, unix.NETLINK_ROUTE, routes, hints, func(m syscall.NetlinkMessage) bool { return routeConcerns(m, w.managed()) })
	go w.listen(ctx, unix.NETLINK_NETFILTER, []uint32{unix.NFNLGRP_NFTABLES}, hints, filterConcerns)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hints:
			w.recheck()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(hintEvery):
		}
	}
}

// listen reads messages of one kind until ctx ends.
func (w *Watcher) listen(ctx context.Context, protocol int, groups []uint32, hints chan<- struct{}, concerns func(syscall.NetlinkMessage) bool) {
	file, err := subscribe(protocol, groups)
	if err != nil {
		w.log.Warn("can't listen for changes in the kernel; changes by hand are noticed later", "error", err)
		return
	}
	stop := context.AfterFunc(ctx, func() { file.Close() })
	defer func() {
		stop()
		file.Close()
	}()
	buffer := make([]byte, 1<<16)
	for ctx.Err() == nil {
		n, err := file.Read(buffer)
		// With more changes than could be queued, some may concern us.
		concerning := errors.Is(err, unix.ENOBUFS)
		if err != nil && !concerning {
			if ctx.Err() == nil {
				w.log.Warn("can't read changes in the kernel; changes by hand are noticed later", "error", err)
			}
			return
		}
		if messages, err := syscall.ParseNetlinkMessage(buffer[:max(n, 0)]); err == nil {
			concerning = concerning || slices.ContainsFunc(messages, concerns)
		}
		if concerning {
			select {
			case hints <- struct{}{}:
			default: // one is due already
			}
		}
	}
}

// subscribe opens a socket in the network namespace of the calling thread.
func subscribe(protocol int, groups []uint32) (*os.File, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	file := os.NewFile(uintptr(socket), "netlink")
	err = unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	for _, group := range groups {
		err = errors.Join(err, unix.SetsockoptInt(socket, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(group)))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to netlink messages: %w", err), file.Close())
	}
	return file, nil
}

// filterConcerns reports whether a message of nf_tables is about our table.
func filterConcerns(m syscall.NetlinkMessage) bool {
	switch m.Header.Type & 0xff {
	case unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_DELTABLE, unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN, unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE:
	default:
		return false
	}
	const nfgenmsgSize = 4 // of struct nfgenmsg
	// Tables, chains and rules have their table's name in the same attribute.
	name := attribute(m.Data, nfgenmsgSize, unix.NFTA_TABLE_NAME)
	return string(bytes.TrimRight(name, "\x00")) == netfilter.TableName
}

// routeConcerns reports whether a message of rtnetlink may tell of harm.
func routeConcerns(m syscall.NetlinkMessage, o Managed) bool {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return linkConcerns(m, o)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if len(m.Data) < unix.SizeofIfAddrmsg {
			return false
		}
		index := int(binary.NativeEndian.Uint32(m.Data[4:])) // ifa_index
		const loopback = 1
		return index == loopback || slices.Contains(o.Devices, index)
	case unix.RTM_DELROUTE:
		return deletedRouteConcerns(m, o)
	case unix.RTM_DELQDISC, unix.RTM_DELTFILTER:
		const size = 20 // of struct tcmsg
		if len(m.Data) < size {
			return false
		}
		index := int(binary.NativeEndian.Uint32(m.Data[4:])) // tcm_ifindex
		_, held := o.holds(index)
		return held || slices.Contains(o.Devices, index)
	}
	return false
}

func linkConcerns(m syscall.NetlinkMessage, o Managed) bool {
	if len(m.Data) < unix.SizeofIfInfomsg {
		return false
	}
	index := int(binary.NativeEndian.Uint32(m.Data[4:])) // ifi_index
	if slices.Contains(o.Devices, index) {
		return true
	}
	rec, held := o.holds(index)
	if !held {
		return false
	}
	flags := binary.NativeEndian.Uint32(m.Data[8:]) // ifi_flags
	mtu := attribute(m.Data, unix.SizeofIfInfomsg, unix.IFLA_MTU)
	name := bytes.TrimRight(attribute(m.Data, unix.SizeofIfInfomsg, unix.IFLA_IFNAME), "\x00")
	mac := attribute(m.Data, unix.SizeofIfInfomsg, unix.IFLA_ADDRESS)
	return m.Header.Type == unix.RTM_DELLINK || flags&unix.IFF_UP == 0 || string(name) != rec.HostIfName ||
		len(mtu) == 4 && int(binary.NativeEndian.Uint32(mtu)) != rec.MTU || !bytes.Equal(mac, state.VirtualMAC[:])
}

// deletedRouteConcerns leaves out the routes of pods that leave.
func deletedRouteConcerns(m syscall.NetlinkMessage, o Managed) bool {
	if len(m.Data) < unix.SizeofRtMsg || m.Data[5] != netdev.RouteProtocol { // rtm_protocol
		return false
	}
	index := attribute(m.Data, unix.SizeofRtMsg, unix.RTA_OIF)
	if len(index) == 4 && slices.Contains(o.Devices, int(binary.NativeEndian.Uint32(index))) {
		return true
	}
	dst, ok := netip.AddrFromSlice(attribute(m.Data, unix.SizeofRtMsg, unix.RTA_DST))
	return ok && slices.ContainsFunc(o.Records, func(rec journal.Record) bool { return rec.Shadow4 == dst || rec.Shadow6 == dst })
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
