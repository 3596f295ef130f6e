// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// setFamilies enables and disables IPv6.
func (p *planner) setFamilies() {
	p.each(func(now, want *document.Interface) {
		if want.IPv6 == nil || want.IPv6.Enabled == nil {
			return
		}
		enabled := *want.IPv6.Enabled
		if now.IPv6 != nil && now.IPv6.Enabled != nil && *now.IPv6.Enabled == enabled {
			return
		}
		p.step(SetFamily{now.Name, enabled})
		if !enabled {
			p.loseIPv6(now)
		}
	})
}

// setForwarding sets which families of an interface forward packets. Nobody knows whether an
// interface does that has just been made. A family that is disabled forwards nothing, and the
// kernel may lack its settings.
func (p *planner) setForwarding() {
	p.each(func(now, want *document.Interface) {
		for _, f := range familiesOf(now, want) {
			if f.want == nil || f.want.Forwarding == nil || f.name == document.FamilyIPv6 && isOff(f.want, enabled) {
				continue
			}
			forwards := *f.want.Forwarding
			if is := *f.now; is == nil || is.Forwarding == nil || *is.Forwarding != forwards {
				p.step(SetForwarding{now.Name, f.name, forwards})
			}
		}
	})
}

func enabled(ip *document.IP) *bool { return ip.Enabled }

// setAddresses removes addresses and then adds some. All are removed before any is added:
// one may move from an interface to another.
func (p *planner) setAddresses() {
	p.each(func(now, want *document.Interface) { p.clearAddresses(now, want) })
	p.each(func(now, want *document.Interface) {
		p.addAddresses(now, now.IPv4, static(addresses(want.IPv4)))
		// The kernel lists the address of IPv6 first that was added last, and prefers it as source.
		six := static(addresses(want.IPv6))
		slices.Reverse(six)
		p.addAddresses(now, now.IPv6, six)
	})
}

func (p *planner) addAddresses(now *document.Interface, is *document.IP, shall []document.Address) {
	for _, a := range shall {
		if !has(addresses(is), a) {
			p.step(AddAddress{now.Name, a})
		}
	}
}

func has(list []document.Address, a document.Address) bool {
	return slices.ContainsFunc(list, func(other document.Address) bool { return sameAddress(a, other) })
}

// clearAddresses removes addresses that an interface shall not have, and those that are out
// of order.
func (p *planner) clearAddresses(now, want *document.Interface) {
	if want.IPv4 != nil && want.IPv4.Addresses != nil {
		keep := inOrder(static(addresses(now.IPv4)), static(want.IPv4.Addresses))
		p.clear(now, &now.IPv4, append(keep, target.Staying(now.IPv4, want.IPv4)...), four)
	}
	if want.IPv6 != nil && want.IPv6.Addresses != nil {
		// Addresses of IPv6 that are there stay, also in another order: it means little.
		keep := common(static(addresses(now.IPv6)), static(want.IPv6.Addresses))
		p.clear(now, &now.IPv6, append(keep, target.Staying(now.IPv6, want.IPv6)...), six)
	}
}

// clear removes the addresses of a family that are not kept. With the first address of a
// network the kernel may remove the others of it, and with the last one of IPv4 the routes.
func (p *planner) clear(now *document.Interface, ip **document.IP, keep []document.Address, family families) {
	is := addresses(*ip)
	left := slices.Clone(keep)
	for _, a := range is {
		if has(keep, a) {
			continue
		}
		p.step(RemoveAddress{now.Name, a})
		p.loseSource(a.IP)
		if family == four {
			left = slices.DeleteFunc(left, func(other document.Address) bool {
				lost := network(other) == network(a)
				if lost {
					p.loseSource(other.IP)
				}
				return lost
			})
		}
	}
	if len(keep) == len(is) {
		return
	}
	copied := **ip
	copied.Addresses, *ip = left, &copied
	if len(left) == 0 && family == four {
		p.loseRoutes(now.Name, four)
	}
}

// network returns the subnet of an address.
func network(a document.Address) netip.Prefix {
	ip, err := netip.ParseAddr(a.IP)
	if err != nil {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(ip, a.PrefixLength).Masked()
}

// common returns the addresses that two lists share.
func common(is, shall []document.Address) (both []document.Address) {
	for _, a := range is {
		if has(shall, a) {
			both = append(both, a)
		}
	}
	return both
}

// inOrder returns the addresses of IPv4 that stay. The first address of a network is the source
// of packets to it. The first address of the first network is the source of packets to other
// destinations on the link. New addresses come after the present ones, so addresses that are out
// of order are removed and added again.
func inOrder(is, shall []document.Address) (keep []document.Address) {
	wanted, order := byNetwork(shall)
	kept, was := byNetwork(common(is, shall))
	last := -1
	for _, n := range order {
		at := slices.Index(was, n)
		if at <= last || !slices.EqualFunc(kept[n], wanted[n][:len(kept[n])], sameAddress) {
			break
		}
		last = at
		keep = append(keep, kept[n]...)
	}
	return keep
}

// byNetwork returns addresses by their networks, and the networks in order.
func byNetwork(list []document.Address) (map[netip.Prefix][]document.Address, []netip.Prefix) {
	networks := map[netip.Prefix][]document.Address{}
	var order []netip.Prefix
	for _, a := range list {
		n := network(a)
		if networks[n] == nil {
			order = append(order, n)
		}
		networks[n] = append(networks[n], a)
	}
	return networks, order
}
