// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podside

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// CheckDevice compares a device with its wanted properties, and returns the first difference as
// an ifdriver.ErrMismatch; what describes the device.
func CheckDevice(what string, link netlink.Link, mac net.HardwareAddr, mtu int) error {
	attrs := link.Attrs()
	switch {
	case attrs.Flags&net.FlagUp == 0:
		return Mismatch("%s is down", what)
	case !bytes.Equal(attrs.HardwareAddr, mac):
		return Mismatch("%s has MAC %s, want %s", what, attrs.HardwareAddr, mac)
	case attrs.MTU != mtu:
		return Mismatch("%s has MTU %d, want %d", what, attrs.MTU, mtu)
	}
	return nil
}

// CheckAddrs finds a wanted address that a device does not have, which is an
// ifdriver.ErrMismatch.
func CheckAddrs(h *netlink.Handle, link netlink.Link, want []netip.Prefix) error {
	list, err := rtnl.Complete(func() ([]netlink.Addr, error) { return h.AddrList(link, unix.AF_UNSPEC) })
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, addr := range want {
		same := func(a netlink.Addr) bool { return a.IPNet.String() == addr.String() }
		if !slices.ContainsFunc(list, same) {
			return Mismatch("address %s is gone", addr)
		}
	}
	return nil
}

// CheckRoutes finds a route or rule that an interface does not have, which is an
// ifdriver.ErrMismatch.
func CheckRoutes(h *netlink.Handle, link netlink.Link, spec ifdriver.Spec) error {
	if err := checkRoutes(h, link, routesOf(spec)); err != nil || len(spec.Rules) == 0 {
		return err
	}
	list, err := rtnl.Complete(func() ([]netlink.Rule, error) { return h.RuleList(unix.AF_UNSPEC) })
	if err != nil {
		return fmt.Errorf("list rules: %w", err)
	}
	for _, rule := range spec.Rules {
		same := func(r netlink.Rule) bool { return r.Table == rule.Table && prefixOf(r.Src) == rule.From }
		if !slices.ContainsFunc(list, same) {
			return Mismatch("rule from %s to table %d is gone", rule.From, rule.Table)
		}
	}
	return nil
}

func checkRoutes(h *netlink.Handle, link netlink.Link, want []netif.Route) error {
	of := &netlink.Route{LinkIndex: link.Attrs().Index} // table 0: all tables
	list, err := rtnl.Complete(func() ([]netlink.Route, error) {
		return h.RouteListFiltered(unix.AF_UNSPEC, of, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, route := range want {
		same := func(r netlink.Route) bool {
			return sameDst(r, route.Dst) && r.Gw.Equal(route.Gateway.AsSlice()) &&
				r.Table == cmp.Or(route.Table, unix.RT_TABLE_MAIN)
		}
		if !slices.ContainsFunc(list, same) {
			return Mismatch("%s is gone", words(route))
		}
	}
	return nil
}

// sameDst reports whether a route leads to a prefix. A default route may have no
// destination.
func sameDst(r netlink.Route, dst netip.Prefix) bool {
	if dst.Bits() == 0 {
		return isDefault(r.Dst) && r.Family == int(ipfamily.Of(dst.Addr()).Number())
	}
	return prefixOf(r.Dst) == dst
}

// prefixOf converts a prefix of the netlink library, the zero value for none.
func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	ip, _ := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(ip.Unmap(), ones)
}

func isDefault(dst *net.IPNet) bool {
	if dst == nil {
		return true
	}
	ones, _ := dst.Mask.Size()
	return ones == 0
}

// CheckIPv6 compares the setting that turns IPv6 on or off, in the calling thread's
// namespace. A difference is an ifdriver.ErrMismatch. In a VPC the addresses are the
// criterion, see CheckAddrs.
func CheckIPv6(spec ifdriver.Spec) error {
	if spec.IPv6 == netif.IPv6Default {
		return nil
	}
	want := map[bool]string{true: "1", false: "0"}[spec.IPv6 == netif.IPv6Off]
	path, err := ofIPv6(spec.IfName, "disable_ipv6")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && want == "1" {
		return nil
	}
	if err != nil {
		return Mismatch("IPv6 of interface %s: %v", spec.IfName, err)
	}
	if got := strings.TrimSpace(string(text)); got != want {
		return Mismatch("the setting disable_ipv6 of interface %s is %s, want %s", spec.IfName, got, want)
	}
	return nil
}

// Inspect runs check in the network namespace with that path, and returns the identity of the
// namespace. If the namespace is gone, it returns the error of missing.
func Inspect(path string, missing func(text string) error, check func(*netlink.Handle) error) (ifdriver.Link, error) {
	pod, err := netns.Open(path)
	if errors.Is(err, netns.ErrGone) {
		return ifdriver.Link{}, missing("network namespace " + path + " is gone")
	}
	if err != nil {
		return ifdriver.Link{}, err
	}
	defer func() { _ = pod.Close() }()
	var id netns.ID
	err = Within(pod, func(h *rtnl.Socket) error {
		if id, err = netns.Current(); err != nil {
			return err
		}
		return check(h.Handle)
	})
	if err != nil {
		return ifdriver.Link{}, err
	}
	return ifdriver.Link{NetnsInode: id.Inode, NetnsCookie: id.Cookie}, nil
}

// CheckInterface compares an interface of the pod with spec: its device, addresses, routes and
// settings of IPv6.
func CheckInterface(h *netlink.Handle, link netlink.Link, spec ifdriver.Spec) error {
	if err := CheckDevice("interface "+spec.IfName, link, spec.MAC, cmp.Or(spec.MTU, link.Attrs().MTU)); err != nil {
		return err
	}
	if err := CheckAddrs(h, link, spec.Addrs); err != nil {
		return err
	}
	if err := CheckRoutes(h, link, spec); err != nil {
		return err
	}
	return CheckIPv6(spec)
}

// Mismatch returns an ifdriver.ErrMismatch with a text.
func Mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ifdriver.ErrMismatch, fmt.Sprintf(format, args...))
}

// Gone returns an ifdriver.ErrMismatch that is an ifdriver.ErrGone too, with a text.
func Gone(format string, args ...any) error {
	return fmt.Errorf("%w: %w", Mismatch(format, args...), ifdriver.ErrGone)
}

// CheckCarrier returns why a device of the node, by the name that people know, can't carry
// an interface with an MTU: it is down, or its own MTU is smaller.
func CheckCarrier(device netlink.Link, name string, mtu int) error {
	attrs := device.Attrs()
	switch {
	case attrs.Flags&net.FlagUp == 0:
		return fmt.Errorf("device %s of the node is down; set it up (ip link set %s up)", name, name)
	case mtu > attrs.MTU:
		return fmt.Errorf(
			"the network's MTU %d is larger than MTU %d of device %s; lower the one or raise the other",
			mtu,
			attrs.MTU,
			name,
		)
	}
	return nil
}
