// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetworkinstance

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

// use is the use of a reserved address.
type use int

const (
	// free for pods of the instance.
	free use = iota
	// held by a pod of the instance.
	held
	// lost to another holder or an older instance: two operators may have written at once.
	lost
)

func useOf(tx store.ReadTx, row *nodeipam.Instance, vpc string, ip netip.Addr) use {
	for _, other := range nodeipam.ReservedBy(tx, vpc, ip) {
		if other.Ref != row.Ref && other.Older(row) {
			return lost
		}
	}
	address := store.AddressByIP(tx, vpc, ip)
	switch {
	case address == nil:
		return free
	case isOf(tx, row, address):
		return held
	}
	return lost
}

// isOf reports whether an address belongs to a pod of an instance. Of a pod that is gone only the
// namespace is known.
func isOf(tx store.ReadTx, row *nodeipam.Instance, address *store.Address) bool {
	if address.Holder.Kind != store.HolderPod || address.Holder.Namespace != row.Namespace {
		return false
	}
	pod := store.GetPod(tx, address.Holder.UID)
	return pod == nil || isLabelled(pod, row)
}

// onlyHeld returns the reservations of an instance that its pods hold.
func onlyHeld(tx store.ReadTx, row *nodeipam.Instance, list []nodeipam.Reserved) []nodeipam.Reserved {
	return only(list, func(reserved nodeipam.Reserved, ip netip.Addr) bool {
		return useOf(tx, row, reserved.VPC, ip) == held
	})
}

// only returns the reservations that stay, in their order.
func only(list []nodeipam.Reserved, stays func(nodeipam.Reserved, netip.Addr) bool) []nodeipam.Reserved {
	var all []nodeipam.Reserved
	for _, reserved := range list {
		ips := slices.DeleteFunc(slices.Clone(reserved.IPs), func(ip netip.Addr) bool { return !stays(reserved, ip) })
		if len(ips) > 0 {
			reserved.IPs = ips
			all = append(all, reserved)
		}
	}
	return all
}

// remaining returns the reservations that an instance keeps: the ones that its parts keep, and
// other addresses that its pods hold.
func remaining(tx store.ReadTx, row *nodeipam.Instance, parts []*part) []nodeipam.Reserved {
	return only(row.Reserved, func(reserved nodeipam.Reserved, ip netip.Addr) bool {
		for _, p := range parts {
			if p.network == reserved.PodNetwork {
				return p.keeps(tx, row, reserved, ip)
			}
		}
		return useOf(tx, row, reserved.VPC, ip) == held
	})
}

// with returns reservations with the new addresses of a part.
func with(list []nodeipam.Reserved, p *part) []nodeipam.Reserved {
	if len(p.fresh) == 0 {
		return list
	}
	all := slices.Clone(list)
	for i := range all {
		if all[i].PodNetwork == p.network && all[i].VPC == p.subnet.VPC {
			all[i].IPs = append(slices.Clone(all[i].IPs), p.fresh...)
			return all
		}
	}
	return append(all, nodeipam.Reserved{PodNetwork: p.network, VPC: p.subnet.VPC, IPs: p.fresh})
}

func count(list []nodeipam.Reserved) int {
	total := 0
	for _, reserved := range list {
		total += len(reserved.IPs)
	}
	return total
}

// within reports whether some reservations are among others.
func within(some, others []nodeipam.Reserved) bool {
	type address struct {
		podNetwork, vpc string
		ip              netip.Addr
	}
	all := map[address]bool{}
	for _, reserved := range others {
		for _, ip := range reserved.IPs {
			all[address{reserved.PodNetwork, reserved.VPC, ip}] = true
		}
	}
	for _, reserved := range some {
		for _, ip := range reserved.IPs {
			if !all[address{reserved.PodNetwork, reserved.VPC, ip}] {
				return false
			}
		}
	}
	return true
}
