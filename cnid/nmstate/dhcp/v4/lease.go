// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// read takes the lease out of an offer or an acknowledgement. Its error tells why no client
// could use it; whatever else is wrong is left out.
func (a *Answer) read(packet *dhcpv4.DHCPv4) error {
	own, err := ownAddress(packet)
	if err != nil {
		return err
	}
	if err := a.readTimes(packet.Options); err != nil {
		return err
	}
	a.Lease = dhcp.Lease{
		Address: own,
		Routes:  routes(packet.Options, own),
		DNS:     servers(packet.Options.Get(dhcpv4.OptionDomainNameServer), own),
		Search:  search(packet.Options),
		MTU:     mtu(packet.Options),
		Server:  a.Server,
	}
	return nil
}

// ownAddress returns the address with the length of its network.
func ownAddress(packet *dhcpv4.DHCPv4) (netip.Prefix, error) {
	own, err := address(packet.YourIPAddr)
	if err != nil || !isHost(own) {
		return netip.Prefix{}, fmt.Errorf("the server gives the address %v, which no host can have", own)
	}
	bits, err := maskBits(packet.Options.Get(dhcpv4.OptionSubnetMask), own)
	if err != nil {
		return netip.Prefix{}, err
	}
	prefix := netip.PrefixFrom(own, bits)
	if isEdge(prefix, own) {
		return netip.Prefix{}, fmt.Errorf(
			"the server gives %s, which is the address of the network or its broadcast address",
			prefix,
		)
	}
	return prefix, nil
}

// maskBits returns the length of a network mask (option 1). Without the option the class of
// the address counts.
func maskBits(mask []byte, own netip.Addr) (int, error) {
	if mask == nil {
		switch first := own.As4()[0]; {
		case first < 128:
			return 8, nil
		case first < 192:
			return 16, nil
		}
		return 24, nil
	}
	if len(mask) != 4 {
		return 0, fmt.Errorf("the server gives a network mask of %d bytes", len(mask))
	}
	number := binary.BigEndian.Uint32(mask)
	inverse := ^number
	if number == 0 || inverse&(inverse+1) != 0 {
		return 0, fmt.Errorf("the server gives %d.%d.%d.%d as network mask", mask[0], mask[1], mask[2], mask[3])
	}
	bits := 0
	for ; number != 0; number <<= 1 {
		bits++
	}
	return bits, nil
}

// isEdge reports whether an address is the network itself or its broadcast address. Networks
// of two addresses or one have neither (RFC 3021).
func isEdge(network netip.Prefix, of netip.Addr) bool {
	if network.Bits() >= 31 || !network.Contains(of) {
		return false
	}
	host := uint32(math.MaxUint32) >> network.Bits()
	raw := of.As4()
	part := binary.BigEndian.Uint32(raw[:]) & host
	return part == 0 || part == host
}

// isHost reports whether a host can have an address, or route by it.
func isHost(a netip.Addr) bool {
	return a.Is4() && a.As4()[0] != 0 && a.As4()[0] < 224 && !a.IsLoopback()
}

func address(raw []byte) (netip.Addr, error) {
	if len(raw) != 4 {
		return netip.Addr{}, errors.New("not an address of IPv4")
	}
	return netip.AddrFrom4([4]byte(raw)), nil
}

// addresses returns the hosts in an option.
func addresses(raw []byte) []netip.Addr {
	var list []netip.Addr
	for part := range slices.Chunk(raw, 4) {
		if a, err := address(part); err == nil && isHost(a) && !slices.Contains(list, a) {
			list = append(list, a)
		}
		if len(list) == dhcp.MaxRoutes {
			break
		}
	}
	return list
}

// servers returns name servers.
func servers(raw []byte, own netip.Prefix) []netip.Addr {
	list := slices.DeleteFunc(addresses(raw), func(a netip.Addr) bool { return isEdge(own, a) })
	return list[:min(len(list), dhcp.MaxDNS)]
}

// routes returns the classless routes (option 121), and the default route by the first router
// that can be one (option 3) unless a classless route is one. RFC 3442 ignores the router
// beside any classless route. NetworkManager keeps it, and hosts that come from there would
// lose their default route otherwise.
func routes(options dhcpv4.Options, own netip.Prefix) []dhcp.Route {
	list := classless(options.Get(dhcpv4.OptionClasslessStaticRoute), own)
	if leadsEverywhere(list) {
		return list
	}
	for _, router := range addresses(options.Get(dhcpv4.OptionRouter)) {
		if isGateway(router, own) {
			list = append([]dhcp.Route{route(everywhere(0, 0), router, own)}, list...)
			return list[:min(len(list), dhcp.MaxRoutes)]
		}
	}
	return list
}

// everywhere is the network of all addresses, or with one bit half of it.
func everywhere(first byte, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{first}), bits)
}

// leadsEverywhere reports whether routes lead to all addresses. Two halves do so too, as
// servers write it whose default route has to win.
func leadsEverywhere(list []dhcp.Route) bool {
	return has(list, everywhere(0, 0)) || has(list, everywhere(0, 1)) && has(list, everywhere(128, 1))
}

// classless reads routes in the form of RFC 3442: the length of the destination, as many of
// its bytes as that takes, and the gateway. What comes after an unreadable one is left out.
func classless(raw []byte, own netip.Prefix) []dhcp.Route {
	var list []dhcp.Route
	for len(raw) > 0 && len(list) < dhcp.MaxRoutes {
		bits := int(raw[0])
		size := (bits + 7) / 8
		if bits > 32 || len(raw) < 1+size+4 {
			break
		}
		var to [4]byte
		copy(to[:], raw[1:1+size])
		destination := netip.PrefixFrom(netip.AddrFrom4(to), bits).Masked()
		gateway := netip.AddrFrom4([4]byte(raw[1+size : 1+size+4]))
		raw = raw[1+size+4:]
		if isDestination(destination) && (gateway.IsUnspecified() || isGateway(gateway, own)) && !has(list, destination) {
			list = append(list, route(destination, gateway, own))
		}
	}
	return list
}

func route(to netip.Prefix, gateway netip.Addr, own netip.Prefix) dhcp.Route {
	if gateway.IsUnspecified() {
		return dhcp.Route{Destination: to}
	}
	return dhcp.Route{Destination: to, Gateway: gateway, OnLink: !own.Contains(gateway)}
}

func has(list []dhcp.Route, to netip.Prefix) bool {
	return slices.ContainsFunc(list, func(r dhcp.Route) bool { return r.Destination == to })
}

// isDestination reports whether packets to a network may be routed. It accepts the default route,
// and refuses other parts of 0.0.0.0/8, of loopback and of multicast.
func isDestination(to netip.Prefix) bool {
	if to.Bits() == 0 {
		return true
	}
	first := to.Addr().As4()[0]
	// The halves of everything, 0.0.0.0/1 and 128.0.0.0/1, stand for the default route too.
	return to.Bits() < 8 && first < 224 || isHost(to.Addr())
}

func isGateway(a netip.Addr, own netip.Prefix) bool {
	return isHost(a) && a != own.Addr() && !isEdge(own, a)
}

// search returns the search list (option 119), or else the domain of the host (option 15).
func search(options dhcpv4.Options) []string {
	if raw := options.Get(dhcpv4.OptionDNSDomainSearchList); raw != nil {
		labels, err := rfc1035label.FromBytes(raw)
		if err == nil {
			return dhcp.Domains(labels.Labels)
		}
	}
	if raw := options.Get(dhcpv4.OptionDomainName); raw != nil {
		// Some servers end the text as a string of C.
		return dhcp.Domains([]string{strings.TrimRight(string(raw), "\x00")})
	}
	return nil
}

func mtu(options dhcpv4.Options) int {
	raw := options.Get(dhcpv4.OptionInterfaceMTU)
	if len(raw) != 2 {
		return 0
	}
	if size := int(binary.BigEndian.Uint16(raw)); size >= dhcp.MinMTU && size <= dhcp.MaxMTU {
		return size
	}
	return 0
}

// forever is a lease time without an end.
const forever = math.MaxUint32

// readTimes reads the lifetimes. Times of renewal that come after the end, or in the wrong
// order, are replaced by the times of RFC 2131, section 4.4.5.
func (a *Answer) readTimes(options dhcpv4.Options) error {
	given, isGiven := lifetime(options, dhcpv4.OptionIPAddressLeaseTime)
	if !isGiven {
		return errors.New("the server gives no lease time")
	}
	if given == forever {
		return nil
	}
	a.Time = time.Duration(given) * time.Second
	if a.Time < dhcp.MinTime {
		return fmt.Errorf("the server gives a lease of %s; the shortest that is used has %s", a.Time, dhcp.MinTime)
	}
	renew, hasRenew := lifetime(options, dhcpv4.OptionRenewTimeValue)
	rebind, hasRebind := lifetime(options, dhcpv4.OptionRebindingTimeValue)
	a.Renew, a.Rebind = time.Duration(renew)*time.Second, time.Duration(rebind)*time.Second
	if !hasRebind || a.Rebind >= a.Time || a.Rebind <= a.Time/8 {
		a.Rebind = a.Time * 7 / 8
	}
	if !hasRenew || a.Renew >= a.Rebind || a.Renew < a.Time/8 {
		a.Renew = min(a.Time/2, a.Rebind*4/7)
	}
	return nil
}

func lifetime(options dhcpv4.Options, code dhcpv4.OptionCode) (uint32, bool) {
	raw := options.Get(code)
	if len(raw) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(raw), true
}
