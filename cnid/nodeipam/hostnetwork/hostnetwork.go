// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostnetwork describes the node's own network for answers of the node IPAM API
// (field HostPrimaryIPInfo).
package hostnetwork

import (
	"log/slog"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/cni/drivers/nic"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// Reader describes the network of the node, and reads it anew after changes alone.
type Reader struct {
	// address is the node's own, as its Node object has it; not valid while it is not known.
	address func() netip.Addr
	log     *slog.Logger

	mu    sync.Mutex
	fresh bool
	of    netip.Addr
	info  wire.HostIPInfo
}

// New returns a Reader of the network namespace of threads that call Info. address returns the
// address of the node.
func New(address func() netip.Addr, log *slog.Logger) *Reader {
	return &Reader{address: address, log: log}
}

// Changed tells that something about the network may have changed.
func (r *Reader) Changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh = false
}

// Info returns the network of the node. Unknown fields are "".
func (r *Reader) Info() wire.HostIPInfo {
	address := r.address()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fresh && r.of == address {
		return r.info
	}
	now, err := nic.Read()
	if err != nil {
		r.log.Warn("can't read the network of the node; answers name its address alone", "error", err)
		return describe(address, nic.Node{})
	}
	r.fresh, r.of, r.info = true, address, describe(address, now)
	return r.info
}

// describe returns the network of an address of a node: the prefix of the address, and the
// next hop of the default route of its device.
func describe(address netip.Addr, node nic.Node) wire.HostIPInfo {
	if !address.IsValid() {
		return wire.HostIPInfo{}
	}
	info := wire.HostIPInfo{PrimaryIP: address.String()}
	for _, held := range node.Addrs {
		ip, _ := netip.AddrFromSlice(held.IP)
		if ip.Unmap() != address {
			continue
		}
		length, _ := held.Mask.Size()
		info.Subnet = netip.PrefixFrom(address, length).Masked().String()
		if gateway := defaultGateway(node.Routes, held.LinkIndex, ipfamily.Of(address)); gateway.IsValid() {
			info.Gateway = gateway.String()
		}
		break
	}
	return info
}

// defaultGateway returns the next hop of the default route of a device with the lowest metric in
// the main table; not valid without one.
func defaultGateway(routes []netlink.Route, ifindex int, family ipfamily.Family) (gateway netip.Addr) {
	var best *netlink.Route
	for i := range routes {
		route := &routes[i]
		if route.Family != int(family.Number()) || route.LinkIndex != ifindex || route.Table != unix.RT_TABLE_MAIN ||
			route.Gw == nil ||
			!isDefault(route) {
			continue
		}
		if best == nil || route.Priority < best.Priority {
			best = route
		}
	}
	if best != nil {
		gateway, _ = netip.AddrFromSlice(best.Gw)
	}
	return gateway.Unmap()
}

func isDefault(route *netlink.Route) bool {
	if route.Dst == nil {
		return true
	}
	ones, _ := route.Dst.Mask.Size()
	return ones == 0
}
