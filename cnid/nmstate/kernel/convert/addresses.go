// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// Addresses are the addresses of one device, in the kernel's order: the first address of a
// network is the source of packets to it.
type Addresses struct{ IPv4, IPv6 []document.Address }

// Address is one as the kernel has it.
type Address struct {
	IP     netip.Addr
	Bits   int
	Device uint32
	Flags  uint32 // IFA_F_*
	// Origin is IFAPROT_*; kernels before 5.18 have none.
	Origin uint32
	// Valid and Preferred are the rests of its lifetimes, in seconds.
	Valid, Preferred uint32
}

// Attributes and values of include/uapi/linux/if_addr.h that the library lacks.
const (
	AttrOrigin      = 11 // IFA_PROTO
	originRouter    = 2  // IFAPROT_KERNEL_RA
	originLinkLocal = 3  // IFAPROT_KERNEL_LL
	// OriginLease marks addresses of leases. It is the protocol of their routes.
	OriginLease = unix.RTPROT_DHCP
)

// forever is the lifetime of an address without an end (INFINITY_LIFE_TIME).
const forever = 1<<32 - 1

// ReadAddresses returns the addresses of these devices that are shown, from all addresses.
func ReadAddresses(messages [][]byte, links []Link) map[uint32]Addresses {
	macs := make(map[uint32]attributes, len(links))
	for _, l := range links {
		macs[l.Index] = l.Get(unix.IFLA_ADDRESS)
	}
	byDevice := map[uint32]Addresses{}
	for _, message := range messages {
		a, ok := ReadAddress(message)
		if !ok || a.made(macs[a.Device]) {
			continue
		}
		list := byDevice[a.Device]
		entry := a.shown()
		if a.IP.Is4() {
			list.IPv4 = append(list.IPv4, entry)
		} else {
			list.IPv6 = append(list.IPv6, entry)
		}
		byDevice[a.Device] = list
	}
	return byDevice
}

// ReadAddress reads a message of an address, and returns false if it has none.
func ReadAddress(message []byte) (a Address, ok bool) {
	if len(message) < unix.SizeofIfAddrmsg {
		return a, false
	}
	header, rest := nl.DeserializeIfAddrmsg(message), attributes(message[unix.SizeofIfAddrmsg:])
	a = Address{
		IP:     rest.Address(unix.IFA_LOCAL),
		Bits:   int(header.Prefixlen),
		Device: header.Index,
		Flags:  uint32(header.Flags),
		Origin: rest.Value(AttrOrigin),
	}
	if !a.IP.IsValid() {
		a.IP = rest.Address(unix.IFA_ADDRESS)
	}
	if flags, ok := rest.Number(unix.IFA_FLAGS); ok {
		a.Flags = flags
	}
	a.Valid, a.Preferred = forever, forever
	if left := rest.Get(unix.IFA_CACHEINFO); len(left) >= 8 { // struct ifa_cacheinfo
		a.Preferred, a.Valid = binary.NativeEndian.Uint32(left), binary.NativeEndian.Uint32(left[4:])
	}
	return a, a.IP.IsValid()
}

// shown is the address as documents have it.
func (a Address) shown() document.Address {
	shown := document.Address{IP: a.IP.String(), PrefixLength: a.Bits}
	switch {
	case a.Origin == OriginLease:
		shown.Protocol = document.ProtocolDHCP
	case a.OfRouter():
		shown.Protocol = document.ProtocolRA
	default:
		return shown
	}
	shown.ValidLifetime, shown.PreferredLifetime = lifetime(a.Valid), lifetime(a.Preferred)
	return shown
}

func lifetime(seconds uint32) string {
	if seconds == forever {
		return document.Forever
	}
	return fmt.Sprintf("%dsec", seconds)
}

// OfRouter reports whether the kernel made an address of a router's advertisement.
func (a Address) OfRouter() bool {
	return a.IP.Is6() && (a.Origin == originRouter || a.Flags&unix.IFA_F_MANAGETEMPADDR != 0)
}

// made reports whether the kernel made an address by itself: a temporary one of a router's
// advertisement, or one of the link alone. mac is the device's.
func (a Address) made(mac []byte) bool {
	if !a.IP.Is6() {
		return false
	}
	if a.Flags&unix.IFA_F_TEMPORARY != 0 {
		return true
	}
	linkLocal := a.IP.IsLinkLocalUnicast()
	return linkLocal && (a.Origin == originLinkLocal || a.Origin == 0 && ofMAC(a.IP, mac))
}

// ofMAC reports whether an address has the modified EUI-64 of an Ethernet address (RFC 4291,
// appendix A).
func ofMAC(ip netip.Addr, mac []byte) bool {
	const octets = 6
	if len(mac) != octets {
		return false
	}
	const universal = 2
	id := [8]byte{mac[0] ^ universal, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}
	bytes := ip.As16()
	return [8]byte(bytes[8:]) == id
}

// families returns what an interface has of IPv4 and IPv6.
func (a Addresses) families(l Link) (four, six *document.IP) {
	four = &document.IP{
		Enabled:    new(len(a.IPv4) > 0),
		Forwarding: readConf4(l).forwarding(),
		DHCP:       new(false),
		Addresses:  orEmpty(a.IPv4),
	}
	conf := readConf(l)
	ofRouter := slices.ContainsFunc(a.IPv6, func(one document.Address) bool { return one.Protocol == document.ProtocolRA })
	six = &document.IP{
		Enabled:    new(conf.enabled()),
		Forwarding: conf.forwarding(),
		DHCP:       new(false),
		Autoconf:   new(conf.autoconf() || ofRouter),
		Addresses:  orEmpty(a.IPv6),
	}
	if *six.Autoconf {
		gateway, _ := conf.at(confDefaultRouter)
		// The kernel leaves name servers to programs: auto-dns is known where a document says autoconf.
		six.AutoGateway, six.AutoRoutes = new(gateway != 0), new(true)
		six.Token = tokenOf(l)
	}
	return four, six
}

// tokenOf returns the last bits of addresses that an administrator has chosen, nil if nobody has.
func tokenOf(l Link) *string {
	token, ok := netip.AddrFromSlice(l.Get(unix.IFLA_AF_SPEC).Get(unix.AF_INET6).Get(AttrToken))
	if !ok || token.IsUnspecified() {
		return nil
	}
	return new(token.String())
}

func orEmpty(list []document.Address) []document.Address {
	if list == nil {
		return []document.Address{}
	}
	return list
}

// conf are the settings of IPv6 of a device, nil if it has none: for example if its MTU is
// too small for IPv6. The array comes with the device, so no file of /proc is read.
type conf []byte

// Places in the array of settings (DEVCONF_* of include/uapi/linux/ipv6.h).
const (
	confForwarding = 0
	confAcceptRA   = 3
	confAutoconf   = 5
	confDisable    = 26
	// confDefaultRouter is accept_ra_defrtr.
	confDefaultRouter = 17
)

func readConf(l Link) conf {
	return conf(l.Get(unix.IFLA_AF_SPEC).Get(unix.AF_INET6).Get(unix.IFLA_INET6_CONF))
}

// readConf4 returns the settings of IPv4. Of the two arrays the first place is the same setting.
func readConf4(l Link) conf {
	return conf(l.Get(unix.IFLA_AF_SPEC).Get(unix.AF_INET).Get(unix.IFLA_INET_CONF))
}

// forwarding reports whether a family forwards, nil if the device has no such setting.
func (c conf) forwarding() *bool {
	value, ok := c.at(confForwarding)
	if !ok {
		return nil
	}
	return new(value != 0)
}

// at returns a setting, and false if the kernel has none.
func (c conf) at(place int) (uint32, bool) {
	const width = 4
	if len(c) < (place+1)*width {
		return 0, false
	}
	return binary.NativeEndian.Uint32(c[place*width:]), true
}

func (c conf) enabled() bool {
	disabled, ok := c.at(confDisable)
	return ok && disabled == 0
}

// autoconf reports whether addresses are taken from routers' advertisements. A host that
// forwards takes none, unless it is told to (2).
func (c conf) autoconf() bool {
	autoconf, _ := c.at(confAutoconf)
	accept, _ := c.at(confAcceptRA)
	forwarding, _ := c.at(confForwarding)
	return c.enabled() && autoconf != 0 && (accept == 2 || accept == 1 && forwarding == 0)
}

// AddressRequest describes an address. One of IPv6 is usable at once: a document that is
// verified waits for no detection of duplicates.
func AddressRequest(l Link, a document.Address) ([]nl.NetlinkRequestData, error) {
	ip, err := netip.ParseAddr(a.IP)
	if err != nil {
		return nil, fmt.Errorf("address.ip: %w", err)
	}
	prefix := netip.PrefixFrom(ip, a.PrefixLength)
	if !prefix.IsValid() || ip.Is4In6() || ip.Zone() != "" {
		return nil, fmt.Errorf("address %s/%d: want an address, and a length within its family", a.IP, a.PrefixLength)
	}
	header := nl.NewIfAddrmsg(unix.AF_INET)
	header.Prefixlen, header.Index = uint8(prefix.Bits()), l.Index
	list := []*nl.RtAttr{nl.NewRtAttr(unix.IFA_LOCAL, ip.AsSlice()), nl.NewRtAttr(unix.IFA_ADDRESS, ip.AsSlice())}
	if ip.Is6() {
		header.Family = unix.AF_INET6
		list = append(list, Sized(unix.IFA_FLAGS, 4, unix.IFA_F_NODAD))
	}
	return Requests(header, list), nil
}

// AttrToken is IFLA_INET6_TOKEN (include/uapi/linux/if_link.h).
const AttrToken = 7
