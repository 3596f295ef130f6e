// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// HostPort is a port of the node that leads to a port of a pod.
type HostPort struct {
	// Protocol is IPPROTO_TCP (6), IPPROTO_UDP (17) or IPPROTO_SCTP (132).
	Protocol uint8
	// HostIP is the node's address at which the port is open; the zero value
	// for all of the family of Shadow.
	HostIP netip.Addr
	// HostPort and Port are the node's and the pod's, 1 to 65535.
	HostPort, Port uint16
	// Shadow is the pod's shadow address.
	Shadow netip.Addr
	// Own: packets of the node to itself go to the pod, too. Otherwise they stay on the
	// node, where a program may listen at the port, now or later.
	Own bool
}

// check returns an error for a port that contradicts itself.
func (p HostPort) check() error {
	if err := p.validate(); err != nil {
		return fmt.Errorf("port %d of the node: %w", p.HostPort, err)
	}
	return nil
}

func (p HostPort) validate() error {
	switch {
	case p.Protocol != unix.IPPROTO_TCP && p.Protocol != unix.IPPROTO_UDP && p.Protocol != unix.IPPROTO_SCTP:
		return fmt.Errorf("protocol %d has no ports", p.Protocol)
	case p.HostPort == 0 || p.Port == 0:
		return errors.New("a port is 0")
	case !p.Shadow.IsValid() || p.HostIP.IsValid() && p.HostIP.Is4() != p.Shadow.Is4():
		return errors.New("no shadow of the family of the node's address")
	}
	return nil
}

// compareHostPorts puts ports of one address before ports of all addresses, because the
// first rule decides.
func compareHostPorts(a, b HostPort) int {
	return cmp.Or(-a.HostIP.Compare(b.HostIP), a.Shadow.Compare(b.Shadow), cmp.Compare(a.Protocol, b.Protocol),
		cmp.Compare(a.HostPort, b.HostPort), cmp.Compare(a.Port, b.Port))
}

func sortedHostPorts(list []HostPort) []HostPort {
	return slices.SortedFunc(slices.Values(list), compareHostPorts)
}
