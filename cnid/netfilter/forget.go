// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/netfilter/ruleset"
)

// Forget makes connection tracking forget the UDP flows that lead where the state
// leads no more, and returns how many they were. A TCP connection ends with its
// backend; UDP would go where it went for as long as somebody sends.
func Forget(s ruleset.State) (forgotten uint, err error) {
	own, err := ownAddresses()
	if err != nil {
		return 0, err
	}
	u := flowsOf(s, own)
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		count, failure := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, u)
		forgotten += count
		if failure != nil {
			err = errors.Join(err, fmt.Errorf("forget UDP flows to backends that are gone: %w", failure))
		}
	}
	return forgotten, err
}

// SameUDP reports whether UDP is led to the same places by both states.
func SameUDP(a, b ruleset.State) bool {
	a.Frontends, b.Frontends = ruleset.ChangedFrontends(a.Frontends, b.Frontends)
	return reflect.DeepEqual(flowsOf(a, nil), flowsOf(b, nil))
}

// ownAddresses are those of the node, loopback left out as frontends do.
func ownAddresses() (map[netip.Addr]bool, error) {
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
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

func addrOf(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip) // the zero value is nobody's
	return addr.Unmap()
}

// udpFlows returns the possible UDP flows.
type udpFlows struct {
	shadows []netip.Prefix
	// own are the addresses for which a frontend of the unspecified address stands.
	own map[netip.Addr]bool
	// ports are where ports of the node lead, and whether what the node sends to
	// itself goes there; frontends are where frontends do.
	ports     map[portFlow]bool
	frontends map[netip.AddrPort]map[netip.AddrPort]bool
}

// portFlow is a port of the node and where it leads.
type portFlow struct {
	port uint16
	to   netip.AddrPort
}

func flowsOf(s ruleset.State, own map[netip.Addr]bool) *udpFlows {
	u := &udpFlows{shadows: s.Shadows, own: own, ports: map[portFlow]bool{}, frontends: map[netip.AddrPort]map[netip.AddrPort]bool{}}
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

// MatchConntrackFlow implements netlink.CustomConntrackFilter: it reports whether a
// flow is to be forgotten.
func (u *udpFlows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	asked, answers := flow.Forward, flow.Reverse
	return asked.Protocol == unix.IPPROTO_UDP &&
		u.stale(addrOf(asked.SrcIP), netip.AddrPortFrom(addrOf(asked.DstIP), asked.DstPort), netip.AddrPortFrom(addrOf(answers.SrcIP), answers.SrcPort))
}

// stale reports whether what a client asked at one address must not be answered from
// another any more. What a frontend leads somewhere else than to the address that was asked may
// be from before there was the frontend.
func (u *udpFlows) stale(client netip.Addr, asked, answers netip.AddrPort) bool {
	if own, open := u.ports[portFlow{asked.Port(), answers}]; open && (own || !client.IsLoopback() && !u.own[client]) {
		return false
	}
	if places, ok := u.places(asked); ok {
		return !places[answers]
	}
	return asked != answers && slices.ContainsFunc(u.shadows, func(p netip.Prefix) bool { return p.Contains(answers.Addr()) })
}

func (u *udpFlows) places(asked netip.AddrPort) (map[netip.AddrPort]bool, bool) {
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
