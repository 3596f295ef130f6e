// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// applyShadows puts the node's shadow addresses on lo, which always exists. The kernel
// does not choose them as source addresses by itself: IPv4 has the scope host, IPv6 is
// deprecated (RFC 4862 section 5.5.4).
func (h *Host) applyShadows(shadows []netip.Addr) error {
	for _, shadow := range shadows {
		addr := single(shadow)
		if shadow.Is4() {
			addr.Scope = unix.RT_SCOPE_HOST
		} else {
			if !h.sysctls.hasIPv6() {
				continue
			}
			addr.ValidLft, addr.PreferedLft = math.MaxUint32, 0
		}
		if err := h.ensureAddress("lo", addr); err != nil {
			return err
		}
	}
	return nil
}

// keepAddresses makes the addresses of a device exactly those wanted.
func (h *Host) keepAddresses(link netlink.Link, want []netip.Addr) error {
	device := link.Attrs().Name
	have, err := rtnl.Complete(func() ([]netlink.Addr, error) { return h.netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list addresses of %s: %w", device, err)
	}
	var failures []error
	var held []netip.Addr
	for i := range have {
		prefix := prefixOf(have[i].IPNet)
		if prefix.IsSingleIP() && slices.Contains(want, prefix.Addr()) {
			held = append(held, prefix.Addr())
			continue
		}
		if err := h.netlink.AddrDel(link, &have[i]); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			failures = append(failures, fmt.Errorf("delete address %v of %s: %w", prefix, device, err))
			continue
		}
		h.note(RepairAddress, "addresses of %s without %v", device, prefix)
	}
	for _, ip := range want {
		if slices.Contains(held, ip) || ip.Is6() && !h.sysctls.hasIPv6() {
			continue
		}
		if err := h.ensureAddress(device, single(ip)); err != nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func (h *Host) ensureAddress(device string, addr *netlink.Addr) error {
	link, err := h.netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find device %s: %w", device, err)
	}
	if addr.IP.To4() == nil {
		setting, err := hostdev.SettingPath(ipfamily.IPv6, device, "disable_ipv6")
		if err != nil {
			return err
		}
		if err := h.set(setting, "0", remember); err != nil {
			return err
		}
	}
	err = h.netlink.AddrAdd(link, addr)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("add address %v to %s: %w", addr.IPNet, device, err)
	}
	h.note(RepairAddress, "address %v of %s", addr.IPNet, device)
	return nil
}

// dropAddresses removes addresses from a device, if they are there.
func (h *Host) dropAddresses(device string, addrs []netip.Addr) error {
	link, err := h.netlink.LinkByName(device)
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find device %s: %w", device, err)
	}
	var failures []error
	for _, ip := range addrs {
		if err := h.netlink.AddrDel(link, single(ip)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			failures = append(failures, fmt.Errorf("delete address %v of %s: %w", ip, device, err))
		}
	}
	return errors.Join(failures...)
}

// single returns an address with the longest prefix. For IPv6 it disables duplicate
// address detection, because the control plane assigns addresses once.
func single(ip netip.Addr) *netlink.Addr {
	addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(ip, ip.BitLen()))}
	if ip.Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	return addr
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// prefixOf converts the other way than ipNet. It returns the zero value for a wrong network.
func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	ip, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if !ok {
		return netip.Prefix{}
	}
	if bits == 32 {
		ip = ip.Unmap()
	}
	return netip.PrefixFrom(ip, ones)
}
