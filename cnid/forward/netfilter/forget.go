// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/system/conntrack"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Forget deletes stale UDP flows from connection tracking, and returns their number. A flow
// is stale if the state does not lead to its place any more. A TCP connection ends with its
// backend; a UDP flow would go to the old place as long as the client sends. last is an
// earlier state without stale flows: Forget examines only flows to ports that have changed
// since. With nil, or if ranges or addresses differ, it examines all flows.
func Forget(last *ruleset.State, s ruleset.State) (forgotten uint, err error) {
	ports := []uint16{anyPort}
	if last != nil && slices.Equal(last.Shadows, s.Shadows) && slices.Equal(last.Addresses, s.Addresses) {
		ports = changedPorts(*last, s)
	}
	if len(ports) == 0 {
		return 0, nil
	}
	if !slices.Contains(ports, anyPort) {
		s = onPorts(s, ports)
	}
	own, err := ownAddresses()
	if err != nil {
		return 0, err
	}
	conn, err := conntrack.Open()
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	return placesOf(s, own).forget(conn, ports)
}

// anyPort stands for all ports.
const anyPort = 0

// mostPorts is the largest number of ports whose flows are listed one port at a time: for
// each list the kernel walks all entries.
const mostPorts = 4

// forget deletes the stale flows to these ports.
func (u *udpPlaces) forget(conn conntrack.Conn, ports []uint16) (forgotten uint, err error) {
	selected := ports
	if len(ports) > mostPorts {
		selected = []uint16{anyPort}
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		for _, port := range selected {
			flows, failure := conn.UDP(family, port)
			err = errors.Join(err, failure)
			for _, flow := range flows {
				looked := slices.Contains(ports, anyPort) || slices.Contains(ports, flow.Asked.Port())
				if !looked || !u.stale(flow.Client, flow.Asked, flow.Answers) {
					continue
				}
				if failure := conn.Remove(flow); failure != nil {
					err = errors.Join(err, failure)
					continue
				}
				forgotten++
			}
		}
	}
	return forgotten, err
}

// changedPorts are the ports at which two states lead UDP to different places.
func changedPorts(last, s ruleset.State) []uint16 {
	last.Frontends, s.Frontends = ruleset.ChangedFrontends(last.Frontends, s.Frontends)
	before, after := placesOf(last, nil), placesOf(s, nil)
	changed := map[uint16]bool{}
	for _, pair := range [][2]*udpPlaces{{before, after}, {after, before}} {
		for port, own := range pair[0].ports {
			if other, open := pair[1].ports[port]; !open || other != own {
				changed[port.port] = true
			}
		}
		for frontend, places := range pair[0].frontends {
			if other, led := pair[1].frontends[frontend]; !led || !maps.Equal(places, other) {
				changed[frontend.Port()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// onPorts returns a state without the places at other ports, which do not matter for
// flows to these.
func onPorts(s ruleset.State, ports []uint16) ruleset.State {
	s.HostPorts = slices.DeleteFunc(
		slices.Clone(s.HostPorts), func(p ruleset.HostPort) bool { return !slices.Contains(ports, p.HostPort) },
	)
	s.Frontends = slices.DeleteFunc(
		slices.Clone(s.Frontends), func(f *ruleset.Frontend) bool { return !slices.Contains(ports, f.Port) },
	)
	return s
}

// ownAddresses are the addresses of the node, without loopback, as for frontends.
func ownAddresses() (map[netip.Addr]bool, error) {
	list, err := rtnl.Complete(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list the node's addresses: %w", err)
	}
	own := map[netip.Addr]bool{}
	for _, row := range list {
		if ip := addrOf(row.IP); !ip.IsLoopback() {
			own[ip] = true
		}
	}
	return own, nil
}

func addrOf(ip []byte) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip) // the zero value if ip has a wrong length
	return addr.Unmap()
}

// udpPlaces has the places of UDP flows.
type udpPlaces struct {
	shadows []netip.Prefix
	// own are the node's addresses. A frontend of the unspecified address has all of them.
	own map[netip.Addr]bool
	// ports are the places of the node's ports, and whether packets of the node to
	// itself go there; frontends are the places of frontends.
	ports     map[portFlow]bool
	frontends map[netip.AddrPort]map[netip.AddrPort]bool
}

// portFlow is a port of the node and its place.
type portFlow struct {
	port uint16
	to   netip.AddrPort
}

func placesOf(s ruleset.State, own map[netip.Addr]bool) *udpPlaces {
	u := &udpPlaces{
		shadows: s.Shadows, own: own, ports: map[portFlow]bool{}, frontends: map[netip.AddrPort]map[netip.AddrPort]bool{},
	}
	for _, p := range s.HostPorts {
		if p.Protocol == unix.IPPROTO_UDP {
			u.ports[portFlow{p.HostPort, netip.AddrPortFrom(p.Shadow, p.Port)}] = p.Own
		}
	}
	for _, f := range s.Frontends {
		if f.Protocol != unix.IPPROTO_UDP {
			continue
		}
		places := map[netip.AddrPort]bool{}
		for _, place := range f.Places() {
			places[place] = true
		}
		u.frontends[netip.AddrPortFrom(f.IP, f.Port)] = places
	}
	return u
}

// stale reports whether a flow to one address must not be answered from another address
// any more. A flow of a frontend's address that goes elsewhere may be older than the
// frontend.
func (u *udpPlaces) stale(client netip.Addr, asked, answers netip.AddrPort) bool {
	if own, open := u.ports[portFlow{asked.Port(), answers}]; open && (own || !client.IsLoopback() && !u.own[client]) {
		return false
	}
	if places, ok := u.places(asked); ok {
		return !places[answers]
	}
	return asked != answers &&
		slices.ContainsFunc(u.shadows, func(p netip.Prefix) bool { return p.Contains(answers.Addr()) })
}

func (u *udpPlaces) places(asked netip.AddrPort) (map[netip.AddrPort]bool, bool) {
	if places, ok := u.frontends[asked]; ok {
		return places, true
	}
	if !u.own[asked.Addr()] {
		return nil, false
	}
	all := netip.IPv6Unspecified()
	if asked.Addr().Is4() {
		all = netip.IPv4Unspecified()
	}
	places, ok := u.frontends[netip.AddrPortFrom(all, asked.Port())]
	return places, ok
}
