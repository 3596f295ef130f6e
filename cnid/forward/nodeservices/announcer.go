// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeservices has the services of a node beside its datapath: it announces
// external addresses, answers load balancers at healthCheckNodePorts, and ends stale
// sockets.
package nodeservices

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/system/neighbours"
)

// announcements is how often a new address of this node is announced, and announceEvery
// the time between: neighbours may miss one.
const (
	announcements = 3
	announceEvery = time.Second
)

// Announcer announces new external addresses of this node on the node's network. A
// program replies to requests for them, with or without a daemon. Over IPv6 the Announcer
// joins their multicast groups, because switches may deliver requests only to members.
type Announcer struct {
	log *slog.Logger
	network

	mu sync.Mutex
	at netdev.Underlay
	// due are the addresses of this node, with the number of outstanding announcements.
	due map[netip.Addr]int
	// more is signalled when an announcement is due.
	more chan struct{}
}

// network is the network of the node.
type network interface {
	// Announce tells neighbours of addresses.
	Announce(ifindex int, mac [6]byte, ips []netip.Addr) error
	// Join replaces the multicast groups by the groups of addresses.
	Join(ifindex int, ips []netip.Addr) error
}

// ownNetwork is the network that the node is in.
type ownNetwork struct{ netdev.Groups }

// Announce implements network.
func (*ownNetwork) Announce(ifindex int, mac [6]byte, ips []netip.Addr) error {
	return neighbours.Announce(ifindex, mac, ips)
}

// NewAnnouncer returns an Announcer without addresses.
func NewAnnouncer(log *slog.Logger) *Announcer {
	return &Announcer{log: log, network: &ownNetwork{}, due: map[netip.Addr]int{}, more: make(chan struct{}, 1)}
}

// Update sets the addresses that the program answers for, and the device.
func (a *Announcer) Update(at netdev.Underlay, ips []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	moved := at.Ifindex != a.at.Ifindex || at.MAC != a.at.MAC
	a.at = at
	// The next pass tries again.
	if err := a.Join(at.Ifindex, ips); err != nil {
		a.log.Warn(
			"can't join the multicast groups of external addresses; neighbours behind a switch that filters multicast may not find them",
			"device",
			at.Device,
			"error",
			err,
		)
	}
	maps.DeleteFunc(a.due, func(ip netip.Addr, _ int) bool { return moved || !slices.Contains(ips, ip) })
	for _, ip := range ips {
		if _, known := a.due[ip]; known {
			continue
		}
		a.due[ip] = announcements
		select {
		case a.more <- struct{}{}:
		default: // it is signalled already
		}
	}
}

// Run announces until ctx ends.
func (a *Announcer) Run(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.more:
		case <-again:
		}
		again = nil
		if a.round() {
			again = time.After(announceEvery)
		}
	}
}

// round announces the due addresses, and reports whether some are due again later.
func (a *Announcer) round() (more bool) {
	a.mu.Lock()
	at := a.at
	var ips []netip.Addr
	for ip, left := range a.due {
		if left == 0 {
			continue
		}
		ips = append(ips, ip)
		a.due[ip]--
		more = more || left > 1
	}
	a.mu.Unlock()
	if len(ips) == 0 {
		return false
	}
	if err := a.Announce(at.Ifindex, at.MAC, ips); err != nil {
		a.log.Warn(
			"can't announce an external address; neighbours learn it by their next request",
			"device",
			at.Device,
			"error",
			err,
		)
	}
	return more
}
