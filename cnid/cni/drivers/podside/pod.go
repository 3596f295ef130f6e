// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podside configures and checks the end of an interface that is in the pod. It is
// the same for all drivers, whatever makes the interface.
package podside

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/api/netif"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// loopbackIndex is the index of lo in every network namespace (LOOPBACK_IFINDEX).
const loopbackIndex = 1

// Configure sets up the pod's end, in the order that the kernel wants:
// settings before the device is up, routes afterwards.
func Configure(h *rtnl.Socket, spec ifdriver.Spec) error {
	ifindex, err := h.IndexOf(spec.IfName)
	if err != nil {
		return err
	}
	var b rtnl.Batch
	if err := Plan(&b, ifindex, spec.IfName, spec); err != nil {
		return err
	}
	return h.Execute(&b)
}

// Plan adds the requests of Configure to a batch. The settings of IPv6 that are files it
// writes at once, in the thread's namespace, which is the pod's. now is the name that the
// interface has until the batch is executed.
func Plan(b *rtnl.Batch, ifindex int, now string, spec ifdriver.Spec) error {
	if err := configureIPv6(b, ifindex, now, spec); err != nil {
		return err
	}
	if spec.AltName != "" && spec.AltName != spec.IfName {
		addName(b, ifindex, spec.AltName)
	}
	b.SetUp("set lo up", loopbackIndex)
	b.SetUp(fmt.Sprintf("set %s up", spec.IfName), ifindex, ofIPv4(hostdev.PodSettings))
	for _, addr := range spec.Addrs {
		addAddress(b, ifindex, addr)
	}
	for _, route := range routesOf(spec) {
		// A gateway outside the address's prefix is on the link all the same: the
		// datapath answers for it, or the network outside of every VPC.
		addRoute(b, ifindex, route, route.Gateway.IsValid() && !covers(spec.Addrs, route.Gateway))
	}
	for _, rule := range spec.Rules {
		addRule(b, rule)
	}
	return nil
}

// AddRoutes adds routes by an interface that is up and has its addresses.
func AddRoutes(h *rtnl.Socket, ifName string, routes []netif.Route) error {
	ifindex, err := h.IndexOf(ifName)
	if err != nil {
		return err
	}
	var b rtnl.Batch
	for _, route := range routes {
		addRoute(&b, ifindex, route, false)
	}
	return h.Execute(&b)
}

// RemoveRoutes removes routes by an interface. Missing routes are not an error.
func RemoveRoutes(h *rtnl.Socket, ifName string, routes []netif.Route) error {
	ifindex, err := h.IndexOf(ifName)
	if err != nil {
		return err
	}
	var b rtnl.Batch
	for _, route := range routes {
		removeRoute(&b, ifindex, route)
	}
	return h.Execute(&b)
}

// AddRules adds routing rules. Existing rules are not an error.
func AddRules(h *rtnl.Socket, rules []netif.Rule) error {
	var b rtnl.Batch
	for _, rule := range rules {
		addRule(&b, rule)
	}
	return h.Execute(&b)
}

// RemoveRules removes routing rules. Missing rules are not an error.
func RemoveRules(h *rtnl.Socket, rules []netif.Rule) error {
	var b rtnl.Batch
	for _, rule := range rules {
		RemoveRule(&b, rule)
	}
	return h.Execute(&b)
}

// routesOf returns all routes of an interface, the default routes first.
func routesOf(spec ifdriver.Spec) []netif.Route {
	var routes []netif.Route
	for _, gateway := range spec.Gateways {
		all := netip.IPv6Unspecified()
		if gateway.Is4() {
			all = netip.IPv4Unspecified()
		}
		routes = append(routes, netif.Route{Dst: netip.PrefixFrom(all, 0), Gateway: gateway})
	}
	return append(routes, spec.Routes...)
}

func covers(prefixes []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// configureIPv6 keeps the kernel from adding to the decided addresses. Without IPv6 in the
// namespace it sets nothing, unless the interface needs IPv6.
func configureIPv6(b *rtnl.Batch, ifindex int, now string, spec ifdriver.Spec) error {
	first, err := ofIPv6(now, "disable_ipv6")
	if err != nil {
		return err
	}
	_, err = os.Stat(first)
	if errors.Is(err, os.ErrNotExist) && !needsIPv6(spec) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up IPv6 settings (is IPv6 off in this kernel?): %w", err)
	}
	if spec.IPv6 == netif.IPv6Default {
		b.SetLink("set no link-local address", ifindex, 0, 0, rtnl.NoLinkLocal())
	}
	for _, s := range settingsOf(spec) {
		if err := setIPv6(now, s[0], s[1]); err != nil {
			return fmt.Errorf("set IPv6 setting %s: %w", s[0], err)
		}
	}
	return nil
}

// settingsOf returns the IPv6 settings of an interface. Router advertisements and the
// detection of duplicate addresses go off before IPv6 goes on.
func settingsOf(spec ifdriver.Spec) [][2]string {
	var settings [][2]string
	for _, s := range hostdev.PodSettings {
		if s.Family == ipfamily.IPv6 {
			settings = append(settings, [2]string{s.Name, strconv.Itoa(s.Value)})
		}
	}
	switch {
	case spec.IPv6 == netif.IPv6Off:
		return append(settings, [2]string{"disable_ipv6", "1"})
	case spec.IPv6 != netif.IPv6Default:
		// Neighbours learn addresses that are added later, or move with the MAC.
		settings = append(settings, [2]string{"ndisc_notify", "1"})
	}
	if needsIPv6(spec) {
		// Some runtimes turn IPv6 off in new namespaces.
		settings = append(settings, [2]string{"disable_ipv6", "0"})
	}
	return settings
}

// needsIPv6 reports whether IPv6 has to be on.
func needsIPv6(spec ifdriver.Spec) bool {
	return hasIPv6(spec) || spec.IPv6 == netif.IPv6None || spec.IPv6 == netif.IPv6On
}

// ofIPv6 returns the path of a setting in the calling thread's network namespace.
func ofIPv6(device, name string) (string, error) {
	path, err := hostdev.SettingPath(ipfamily.IPv6, device, name)
	return filepath.Join(hostdev.SettingsRoot, path), err
}

func setIPv6(device, name, value string) error {
	path, err := ofIPv6(device, name)
	if err != nil {
		return err
	}
	return set(path, value)
}

// set writes a setting that has another value. The kernel takes its lock of all
// devices for some also when nothing changes.
func set(path, value string) error {
	// An os.File would add several system calls, and a pod has many settings.
	file, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(file) }()
	now := make([]byte, 64)
	if n, err := unix.Read(file, now); err == nil && strings.TrimSpace(string(now[:n])) == value {
		return nil
	}
	if _, err := unix.Pwrite(file, []byte(value), 0); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// KernelHasIPv6 reports whether the kernel has IPv6, which it may be built or booted without.
func KernelHasIPv6() bool {
	_, err := os.Stat(filepath.Join(hostdev.SettingsRoot, hostdev.FamilyFolder(ipfamily.IPv6)))
	return err == nil
}

func hasIPv6(spec ifdriver.Spec) bool {
	for _, addr := range spec.Addrs {
		if addr.Addr().Is6() {
			return true
		}
	}
	return false
}
