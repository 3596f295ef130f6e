// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"net/netip"
	"sync"
	"time"
)

// RestingTime is how long a released address is avoided while another one is free: peers may still
// have state of its last holder.
const RestingTime = 60 * time.Second

// Resting has the addresses that were released shortly before. The zero value and nil
// are empty. Its methods may be called from any goroutine.
type Resting struct {
	mu       sync.Mutex
	released map[domainIP]time.Time
	// order holds every entry in the order of addition. Entries are forgotten in this order.
	order []rest
}

// domainIP is an address of a domain: a VPC, a network outside of every VPC by its domain,
// or "" for external addresses.
type domainIP struct {
	domain string
	ip     netip.Addr
}

type rest struct {
	domainIP
	at time.Time
}

// Add notes the time of an address's release. The time must not be before the time of the last
// call.
func (r *Resting) Add(domain string, ip netip.Addr, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.released == nil {
		r.released = map[domainIP]time.Time{}
	}
	r.forget(at)
	key := domainIP{domain, ip}
	r.released[key] = at
	r.order = append(r.order, rest{key, at})
}

// Contains reports whether the last release of an address was less than
// RestingTime before now.
func (r *Resting) Contains(domain string, ip netip.Addr, now time.Time) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.released[domainIP{domain, ip}]
	return ok && now.Sub(at) < RestingTime
}

func (r *Resting) forget(now time.Time) {
	for len(r.order) > 0 && now.Sub(r.order[0].at) >= RestingTime {
		// The address may have been released again meanwhile.
		if oldest := r.order[0]; r.released[oldest.domainIP].Equal(oldest.at) {
			delete(r.released, oldest.domainIP)
		}
		r.order = r.order[1:]
	}
}
