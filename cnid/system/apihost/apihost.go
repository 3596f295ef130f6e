// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apihost follows the addresses of an API server that is given by name.
package apihost

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// lookEvery is the time between two lookups, retryEvery after one that failed.
	lookEvery, retryEvery = 30 * time.Second, 5 * time.Second
	// keep is the time that an address stays valid after the last answer that had it: DNS returns
	// only some addresses of a load balancer at a time, and connections last.
	keep = time.Hour
)

// Lookup resolves a host name, as net.Resolver.LookupNetIP does for network "ip".
type Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

// Follower follows the addresses of one host. Its methods may be called concurrently.
type Follower struct {
	host   string
	lookup Lookup
	passes Passes
	log    *slog.Logger

	mu sync.Mutex
	// until is the end of each address's validity.
	until map[netip.Addr]time.Time
}

// Passes are the passes of the node. A follower asks for one when the result of Addresses has
// changed.
type Passes interface{ Ask() uint64 }

// New follows a host. If host is an address, or "", there is nothing to follow.
func New(host string, lookup Lookup, passes Passes, log *slog.Logger) *Follower {
	if _, err := netip.ParseAddr(host); err == nil {
		host = ""
	}
	return &Follower{host: host, lookup: lookup, passes: passes, log: log, until: map[netip.Addr]time.Time{}}
}

// Addresses returns the addresses of the host, sorted.
func (f *Follower) Addresses() []netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(maps.Keys(f.until), netip.Addr.Compare)
}

// Run resolves the host until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	if f.host == "" {
		return
	}
	for ctx.Err() == nil {
		pause := lookEvery
		if err := f.look(ctx, time.Now()); err != nil {
			f.log.Warn("can't look up the API server's name; its last addresses stay in use", "host", f.host, "error", err)
			pause = retryEvery
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// look resolves the host once. An error changes nothing.
func (f *Follower) look(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, retryEvery)
	defer cancel()
	addrs, err := f.lookup(ctx, f.host)
	if err != nil {
		return err
	}
	if f.note(addrs, now) {
		f.passes.Ask()
	}
	return nil
}

// note stores the result of a lookup, and reports whether it changed the addresses.
func (f *Follower) note(addrs []netip.Addr, now time.Time) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ip := range addrs {
		ip = ip.Unmap().WithZone("")
		_, known := f.until[ip]
		f.until[ip], changed = now.Add(keep), changed || !known
	}
	maps.DeleteFunc(f.until, func(_ netip.Addr, until time.Time) bool {
		over := until.Before(now)
		changed = changed || over
		return over
	})
	return changed
}
