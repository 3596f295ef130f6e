// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dhcp has the input and the results of DHCP clients: the wanted clients (Config), and
// the leases of servers (Lease). It is pure. Below it, v4 and v6 are the state machines of the
// protocols, wire has their sockets, and client runs them.
//
// The clients change no interface. Their caller puts the addresses and routes of a Lease on the
// interface, and removes them once the lease has ended.
package dhcp

import (
	"fmt"

	"github.com/alioth-net/alioth/api/ipfamily"
)

// Key names a client.
type Key struct {
	Interface string
	Family    ipfamily.Family
}

// String returns, for example, "DHCP for IPv4 on eth1".
func (k Key) String() string { return fmt.Sprintf("DHCP for %s on %s", k.Family, k.Interface) }

// Config describes what the clients of one interface do. Indexes, hardware addresses and the carrier
// are the kernel's: the clients look them up by the name of the interface, and follow changes.
type Config struct {
	Interface string
	// V4 and V6 are nil without a client for the family.
	V4 *V4
	V6 *V6
}

// V4 configures how a client asks for an IPv4 address.
type V4 struct {
	// ClientID is the value of dhcp-client-id: "ll", "iaid+duid" or octets ("01:02:...").
	// Empty means "ll". CheckClientID tells whether it can be used.
	ClientID string
	// DUID is the value of dhcp-duid for a ClientID of "iaid+duid". See V6.
	DUID string
	// Hostname is sent to the server; empty sends none. The caller puts the name of the node
	// here for dhcp-send-hostname, or dhcp-custom-hostname. CheckHostname refuses what no
	// server accepts.
	Hostname string
}

// Mode tells what a client of DHCPv6 asks for.
type Mode uint8

const (
	// Stateful asks for an address (IA_NA) and for name servers, whatever routers advertise.
	Stateful Mode = iota
	// Stateless asks for name servers alone (Information-request).
	Stateless
	// ByRouter does one of these, or nothing, as the last router's advertisement tells
	// (flags M and O). It is for autoconf: true with dhcp: true.
	ByRouter
)

// V6 configures how a client asks for an IPv6 address, or only for name servers.
type V6 struct {
	Mode Mode
	// DUID is the value of dhcp-duid: "ll", "llt", "uuid" or octets. Empty means "ll".
	// CheckDUID tells whether it can be used.
	DUID string
	// Hostname is sent to the server; empty sends none.
	Hostname string
}
