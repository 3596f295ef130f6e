// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// addresses are those of one device, in the kernel's order: the first one of a network is
// the source of packets to it.
type addresses struct{ four, six []document.Address }

// addresses returns those of all devices.
func (k *Kernel) addresses(ctx context.Context, links []link) (map[uint32]addresses, error) {
	messages, err := k.dump(ctx, unix.RTM_GETADDR, nl.NewIfAddrmsg(unix.AF_UNSPEC))
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	macs := make(map[uint32]attributes, len(links))
	for _, l := range links {
		macs[l.index] = l.Get(unix.IFLA_ADDRESS)
	}
	byDevice := map[uint32]addresses{}
	for _, message := range messages {
		a, ok := readAddress(message)
		if !ok || a.made(macs[a.device]) {
			continue
		}
		list := byDevice[a.device]
		entry := a.shown()
		if a.ip.Is4() {
			list.four = append(list.four, entry)
		} else {
			list.six = append(list.six, entry)
		}
		byDevice[a.device] = list
	}
	return byDevice, nil
}

// address is one as the kernel has it.
type address struct {
	ip     netip.Addr
	bits   int
	device uint32
	flags  uint32 // IFA_F_*
	// origin is IFAPROT_*; kernels before 5.18 have none.
	origin uint32
	// valid and preferred are what is left of its lifetimes, in seconds.
	valid, preferred uint32
}

// Attributes and values of include/uapi/linux/if_addr.h that the library lacks.
const (
	attrOrigin      = 11 // IFA_PROTO
	originRouter    = 2  // IFAPROT_KERNEL_RA
	originLinkLocal = 3  // IFAPROT_KERNEL_LL
	// originLease marks addresses of leases. It is the protocol of their routes.
	originLease = unix.RTPROT_DHCP
)

// forever is the lifetime of an address without an end (INFINITY_LIFE_TIME).
const forever = 1<<32 - 1

func readAddress(message []byte) (a address, ok bool) {
	if len(message) < unix.SizeofIfAddrmsg {
		return a, false
	}
	header, rest := nl.DeserializeIfAddrmsg(message), attributes(message[unix.SizeofIfAddrmsg:])
	a = address{ip: rest.Address(unix.IFA_LOCAL), bits: int(header.Prefixlen), device: header.Index, flags: uint32(header.Flags), origin: rest.Value(attrOrigin)}
	if !a.ip.IsValid() {
		a.ip = rest.Address(unix.IFA_ADDRESS)
	}
	if flags, ok := rest.Number(unix.IFA_FLAGS); ok {
		a.flags = flags
	}
	a.valid, a.preferred = forever, forever
	if left := rest.Get(unix.IFA_CACHEINFO); len(left) >= 8 { // struct ifa_cacheinfo
		a.preferred, a.valid = binary.NativeEndian.Uint32(left), binary.NativeEndian.Uint32(left[4:])
	}
	return a, a.ip.IsValid()
}

// shown is the address as documents have it.
func (a address) shown() document.Address {
	shown := document.Address{IP: a.ip.String(), PrefixLength: a.bits}
	switch {
	case a.origin == originLease:
		shown.Protocol = document.ProtocolDHCP
	case a.ofRouter():
		shown.Protocol = document.ProtocolRA
	default:
		return shown
	}
	shown.ValidLifetime, shown.PreferredLifetime = lifetime(a.valid), lifetime(a.preferred)
	return shown
}

func lifetime(seconds uint32) string {
	if seconds == forever {
		return document.Forever
	}
	return fmt.Sprintf("%dsec", seconds)
}

// ofRouter reports whether the kernel made an address of a router's advertisement.
func (a address) ofRouter() bool {
	return a.ip.Is6() && (a.origin == originRouter || a.flags&unix.IFA_F_MANAGETEMPADDR != 0)
}

// made reports whether the kernel made an address by itself: a temporary one of a router's
// advertisement, or one of the link alone. mac is the device's.
func (a address) made(mac []byte) bool {
	if !a.ip.Is6() {
		return false
	}
	if a.flags&unix.IFA_F_TEMPORARY != 0 {
		return true
	}
	linkLocal := a.ip.IsLinkLocalUnicast()
	return linkLocal && (a.origin == originLinkLocal || a.origin == 0 && ofMAC(a.ip, mac))
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
func (a addresses) families(l link) (four, six *document.IP) {
	four = &document.IP{Enabled: new(len(a.four) > 0), Forwarding: readConf4(l).forwarding(), DHCP: new(false), Addresses: orEmpty(a.four)}
	conf := readConf(l)
	ofRouter := slices.ContainsFunc(a.six, func(one document.Address) bool { return one.Protocol == document.ProtocolRA })
	six = &document.IP{Enabled: new(conf.enabled()), Forwarding: conf.forwarding(), DHCP: new(false), Autoconf: new(conf.autoconf() || ofRouter), Addresses: orEmpty(a.six)}
	if *six.Autoconf {
		gateway, _ := conf.at(confDefaultRouter)
		// The kernel leaves name servers to programs: auto-dns is known where a document says autoconf.
		six.AutoGateway, six.AutoRoutes = new(gateway != 0), new(true)
		six.Token = tokenOf(l)
	}
	return four, six
}

// tokenOf returns the last bits of addresses that an administrator has chosen, nil if nobody has.
func tokenOf(l link) *string {
	token, ok := netip.AddrFromSlice(l.Get(unix.IFLA_AF_SPEC).Get(unix.AF_INET6).Get(attrToken))
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

func readConf(l link) conf {
	return conf(l.Get(unix.IFLA_AF_SPEC).Get(unix.AF_INET6).Get(unix.IFLA_INET6_CONF))
}

// readConf4 returns the settings of IPv4. Of the two arrays the first place is the same setting.
func readConf4(l link) conf {
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

func (k *Kernel) addAddress(ctx context.Context, step plan.AddAddress) error {
	l, err := k.link(ctx, step.Name)
	if err != nil {
		return err
	}
	request, err := addressRequest(l, step.Address)
	if err != nil {
		return err
	}
	err = k.tell(ctx, unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, request...)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	list, listErr := k.addresses(ctx, []link{l})
	if listErr != nil {
		return listErr
	}
	want := netip.MustParsePrefix(fmt.Sprintf("%s/%d", step.Address.IP, step.Address.PrefixLength))
	for _, a := range append(list[l.index].four, list[l.index].six...) {
		if a.IP == want.Addr().String() && a.PrefixLength == want.Bits() {
			return nil
		}
	}
	return fmt.Errorf("%s has the address with another prefix length, or made it by itself: remove it first: %w", step.Name, err)
}

func (k *Kernel) removeAddress(ctx context.Context, step plan.RemoveAddress) error {
	l, err := k.link(ctx, step.Name)
	if errors.Is(err, errNoDevice) {
		return nil
	}
	if err != nil {
		return err
	}
	request, err := addressRequest(l, step.Address)
	if err != nil {
		return err
	}
	err = k.tell(ctx, unix.RTM_DELADDR, 0, request...)
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return k.removePeer(ctx, l, step.Address)
	}
	return unless(err, unix.ENODEV)
}

// removePeer removes an address with a peer, if there is one. The kernel looks for it by its
// peer, which no document has.
func (k *Kernel) removePeer(ctx context.Context, l link, gone document.Address) error {
	ip, err := netip.ParseAddr(gone.IP)
	if err != nil {
		return fmt.Errorf("address.ip: %w", err)
	}
	family := unix.AF_INET
	if ip.Is6() {
		family = unix.AF_INET6
	}
	return k.removeAddresses(ctx, l.index, family, func(a address) bool { return a.ip == ip && a.bits == gone.PrefixLength })
}

// addressRequest describes an address. One of IPv6 is usable at once: a document that is
// verified waits for no detection of duplicates.
func addressRequest(l link, a document.Address) ([]nl.NetlinkRequestData, error) {
	ip, err := netip.ParseAddr(a.IP)
	if err != nil {
		return nil, fmt.Errorf("address.ip: %w", err)
	}
	prefix := netip.PrefixFrom(ip, a.PrefixLength)
	if !prefix.IsValid() || ip.Is4In6() || ip.Zone() != "" {
		return nil, fmt.Errorf("address %s/%d: want an address, and a length within its family", a.IP, a.PrefixLength)
	}
	header := nl.NewIfAddrmsg(unix.AF_INET)
	header.Prefixlen, header.Index = uint8(prefix.Bits()), l.index
	list := []*nl.RtAttr{nl.NewRtAttr(unix.IFA_LOCAL, ip.AsSlice()), nl.NewRtAttr(unix.IFA_ADDRESS, ip.AsSlice())}
	if ip.Is6() {
		header.Family = unix.AF_INET6
		list = append(list, sized(unix.IFA_FLAGS, 4, unix.IFA_F_NODAD))
	}
	return requests(header, list), nil
}

// unless is an error that is none of those that mean that all is well.
func unless(err error, well ...error) error {
	for _, w := range well {
		if errors.Is(err, w) {
			return nil
		}
	}
	return err
}
