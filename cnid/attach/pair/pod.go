// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/attach"
)

// loopbackIndex is that of lo in every network namespace (LOOPBACK_IFINDEX).
const loopbackIndex = 1

// procConf holds the kernel's per-device settings of the IPv6 of the calling
// thread's network namespace.
const procConf = "/proc/sys/net/ipv6/conf"

// configurePod sets up the pod's end, in the order that the kernel wants:
// settings before the device is up, routes afterwards.
func configurePod(h *netlink.Handle, spec attach.Spec) error {
	link, err := h.LinkByName(spec.IfName)
	if err != nil {
		return fmt.Errorf("find %s: %w", spec.IfName, err)
	}
	if err := configureIPv6(h, link, spec); err != nil {
		return err
	}
	if spec.AltName != "" && spec.AltName != spec.IfName {
		if err := h.LinkAddAltName(link, spec.AltName); err != nil {
			return fmt.Errorf("add the name %q: %w", spec.AltName, err)
		}
	}
	lo := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: loopbackIndex, Name: "lo"}}
	if err := h.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", spec.IfName, err)
	}
	for _, addr := range spec.Addrs {
		if err := h.AddrAdd(link, &netlink.Addr{IPNet: ipNet(addr), Flags: addrFlags(addr)}); err != nil {
			return fmt.Errorf("add address %s: %w", addr, err)
		}
	}
	for _, route := range defaultRoutes(link.Attrs().Index, spec) {
		if err := h.RouteAdd(&route); err != nil {
			return fmt.Errorf("add default route by %s: %w", route.Gw, err)
		}
	}
	return nil
}

// addrFlags spares the address the time of being tentative, in which nothing
// can use it.
func addrFlags(addr netip.Prefix) int {
	if addr.Addr().Is4() {
		return 0
	}
	return unix.IFA_F_NODAD
}

// configureIPv6 keeps the kernel from adding to what was decided. Without IPv6
// in the namespace there is nothing to set, unless an address needs it.
func configureIPv6(h *netlink.Handle, link netlink.Link, spec attach.Spec) error {
	dir := filepath.Join(procConf, spec.IfName)
	_, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) && !hasIPv6(spec) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up IPv6 settings (is IPv6 off in this kernel?): %w", err)
	}
	if err := setNoLinkLocal(h, link); err != nil {
		return fmt.Errorf("set no link-local address: %w", err)
	}
	settings := [][2]string{{"accept_ra", "0"}, {"accept_dad", "0"}, {"autoconf", "0"}}
	if hasIPv6(spec) {
		// Some runtimes turn IPv6 off in new namespaces.
		settings = append(settings, [2]string{"disable_ipv6", "0"})
	}
	for _, s := range settings {
		if err := set(filepath.Join(dir, s[0]), s[1]); err != nil {
			return fmt.Errorf("set IPv6 setting %s: %w", s[0], err)
		}
	}
	return nil
}

// set writes a setting that has another value. The kernel takes its lock of all
// devices for some also when nothing changes.
func set(path, value string) error {
	now, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(now)) == value {
		return nil
	}
	return os.WriteFile(path, []byte(value), 0o644)
}

func hasIPv6(spec attach.Spec) bool {
	for _, addr := range spec.Addrs {
		if addr.Addr().Is6() {
			return true
		}
	}
	return false
}

// defaultRoutes returns one route per gateway. A gateway outside the address's
// prefix is on the link all the same: the datapath answers for it.
func defaultRoutes(index int, spec attach.Spec) []netlink.Route {
	var routes []netlink.Route
	for i, gateway := range spec.Gateways {
		route := netlink.Route{LinkIndex: index, Gw: gateway.AsSlice(), Dst: anywhere(gateway), Scope: netlink.SCOPE_UNIVERSE}
		if i >= len(spec.Addrs) || !spec.Addrs[i].Contains(gateway) {
			route.Flags = int(netlink.FLAG_ONLINK)
		}
		routes = append(routes, route)
	}
	return routes
}

func anywhere(family netip.Addr) *net.IPNet {
	if family.Is4() {
		return &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	}
	return &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
}
