// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"maps"
	"slices"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// Advertised returns what routers of all links advertise about the resolver.
func (m *Manager) Advertised() (list []dhcp.Advertised) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, index := range slices.Sorted(maps.Keys(m.advertised)) {
		a := *m.advertised[index]
		a.DNS, a.Search = slices.Clone(a.DNS), slices.Clone(a.Search)
		list = append(list, a)
	}
	return list
}

// tellEvery is the time between two signals: anybody on a link may advertise all the time.
const tellEvery = time.Second

// onOptions notes the options of a router's advertisement. A change that comes too soon after
// another one makes no signal: the server also passes at intervals.
func (m *Manager) onOptions(index int, options []byte, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.advertised[index]
	if a == nil {
		a = &dhcp.Advertised{Index: index}
	}
	changed := a.Note(options, now)
	if !a.IsEmpty() {
		m.advertised[index] = a
	}
	if changed && now.Sub(m.lastChanged) >= tellEvery {
		m.lastChanged = now
		m.notify()
	}
}
