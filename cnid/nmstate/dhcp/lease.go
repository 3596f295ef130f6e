// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net/netip"
	"slices"
	"time"
)

// Limits of a lease. A server that sends more is not refused: the rest is left out.
const (
	// MaxRoutes is how many routes a lease has.
	MaxRoutes = 64
	// MaxDNS is how many name servers a lease has.
	MaxDNS = 8
	// MaxSearch is how many search domains a lease has.
	MaxSearch = 16
	// MinMTU is the smallest MTU of a lease; a smaller one is left out.
	MinMTU = 576
	// MaxMTU is the largest one.
	MaxMTU = 65535
	// MinTime is the shortest life of a lease. A server that offers less is not answered: it
	// would cost a request and a write to disk each time.
	MinTime = 10 * time.Second
)

// Route is a route that a server gave.
type Route struct {
	// Destination is masked. 0.0.0.0/0 is the default route.
	Destination netip.Prefix `json:"destination"`
	// Gateway is the zero Addr for a destination on the link.
	Gateway netip.Addr `json:"gateway"`
	// OnLink tells that the gateway is in no network of the lease, so the kernel accepts it
	// with RTNH_F_ONLINK alone.
	OnLink bool `json:"onLink,omitempty"`
}

// Lease has what a server gave, checked: addresses and gateways are unicast, names are host
// names, and nothing exceeds the limits above. Whether something is reserved on the node is
// the caller's to check.
type Lease struct {
	// Address is zero for a stateless lease of DHCPv6. With IPv6 it has 128 bits: routers
	// tell the prefix of the link.
	Address netip.Prefix `json:"address"`
	// Routes has the default route too. A default route among the classless ones (option 121)
	// replaces that by routers (option 3). IPv6 has none: routers advertise themselves.
	Routes []Route      `json:"routes,omitempty"`
	DNS    []netip.Addr `json:"dns,omitempty"`
	Search []string     `json:"search,omitempty"`
	// MTU is 0 if the server gave none.
	MTU int `json:"mtu,omitempty"`
	// Server is the server's address, ServerID its DUID (DHCPv6).
	Server   netip.Addr `json:"server"`
	ServerID []byte     `json:"serverID,omitempty"`
	// Acquired is when the server gave or prolonged the lease. Renew (T1) is when the client
	// asks this server again, Rebind (T2) when it asks all. Until Preferred the address serves
	// new connections (IPv6), until Expires it may be used at all.
	// A lease without an end has zero times.
	Acquired  time.Time `json:"acquired"`
	Renew     time.Time `json:"renew"`
	Rebind    time.Time `json:"rebind"`
	Preferred time.Time `json:"preferred"`
	Expires   time.Time `json:"expires"`
}

// HasAddress reports whether the lease is more than name servers.
func (l *Lease) HasAddress() bool { return l != nil && l.Address.IsValid() }

// Expired reports whether nothing of the lease may be used any more.
func (l *Lease) Expired(now time.Time) bool { return !l.Expires.IsZero() && !now.Before(l.Expires) }

// Lifetimes returns for how long the address is valid and preferred from now on, in whole
// seconds as the kernel has them, and at least one of them while the lease has not expired.
// Forever is the largest number (IFA_CACHEINFO).
func (l *Lease) Lifetimes(now time.Time) (valid, preferred uint32) {
	return seconds(l.Expires, now), seconds(l.Preferred, now)
}

// Forever is the lifetime of an address of a lease without an end.
const Forever = ^uint32(0)

func seconds(end, now time.Time) uint32 {
	if end.IsZero() {
		return Forever
	}
	left := end.Sub(now)
	if left <= 0 {
		return 0
	}
	return uint32(max(1, min(left/time.Second, time.Duration(Forever-1))))
}

// Same reports whether an interface has the same with both leases, lifetimes aside.
func (l *Lease) Same(other *Lease) bool {
	if l == nil || other == nil {
		return l == other
	}
	return l.Address == other.Address && l.MTU == other.MTU && slices.Equal(l.Routes, other.Routes) &&
		slices.Equal(l.DNS, other.DNS) && slices.Equal(l.Search, other.Search)
}

// Earlier returns the end of a lease if a timer is not due before. A zero time is never due.
func Earlier(timer time.Time, l *Lease) time.Time {
	if l == nil || l.Expires.IsZero() || !timer.IsZero() && timer.Before(l.Expires) {
		return timer
	}
	return l.Expires
}

// Held is a client with its lease.
type Held struct {
	Key
	// Index is the number of the interface, and 0 while the host lacks an interface of this name.
	Index int
	// Lease is nil without a valid lease: the settings of an earlier lease have to go.
	Lease *Lease
	// Phase is a word of the protocol for what the client does: "selecting", "bound", ...
	Phase   string
	Problem Problem
}
