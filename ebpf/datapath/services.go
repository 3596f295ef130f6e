// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"slices"
	"time"
)

// MaxBackends is how many backends one Service has at most.
const MaxBackends = 1000

// Sizes of the maps, MAX_SERVICES and so on in types.h.
const (
	// MaxServices is how many virtual addresses, and ports of them, a node has at
	// most.
	MaxServices = 131072
	// MaxAllBackends is how many backends all of them have at most. A lookup table
	// takes two rows per backend at most, so there is room for all.
	MaxAllBackends = 262144
	maxMaglevParts = 2 * MaxAllBackends
)

// addServices writes the services and, for each virtual address, the row that
// marks it as one.
func (t *tables) addServices(services []Service, have *tables) {
	if len(services) > 0 && t.nextID == 0 {
		t.nextID = have.nextServiceID()
	}
	for _, s := range services {
		key := s.key()
		backends := rawBackends(s.Backends)
		row, ok := have.services[key]
		if !ok || !slices.Equal(backends, have.backendsOf(row)) {
			row = aliothService{Id: t.nextID, Backends: uint32(len(backends))}
			t.nextID++
		}
		t.services[key] = row
		t.services[aliothServiceKey{Vni: s.VNI, Vip: key.Vip}] = aliothService{}
		for slot, b := range backends {
			t.backends[aliothBackendKey{Service: row.Id, Slot: uint32(slot)}] = b
		}
		t.addChoice(row.Id, backends, s.Affinity, have)
	}
}

func (s Service) key() aliothServiceKey {
	return aliothServiceKey{Vni: s.VNI, Vip: rawAddr(s.VIP), Port: networkOrder(s.Port), Proto: s.Proto}
}

// addChoice writes how a new flow finds one of the backends. The lookup table of a
// service that have knows is taken from there.
func (t *tables) addChoice(id uint32, backends []aliothBackend, affinity time.Duration, have *tables) {
	entries := LookupEntries(len(backends))
	if row := (aliothChoice{Entries: uint32(entries), Affinity: uint32(affinity / time.Second)}); row != (aliothChoice{}) {
		t.choices[id] = row
	}
	known := have.choices[id].Entries == uint32(entries)
	for part := range lookupParts(entries) {
		key := aliothMaglevKey{Service: id, Part: uint32(part)}
		row, ok := have.maglev[key]
		if known = known && ok; !known {
			break
		}
		t.maglev[key] = row
	}
	if known {
		return
	}
	for part, slots := range slices.Collect(slices.Chunk(lookupTable(backends, entries), aliothMaglevPart)) {
		var row aliothMaglev
		copy(row.Slot[:], slots)
		t.maglev[aliothMaglevKey{Service: id, Part: uint32(part)}] = row
	}
}

// rawBackends returns the rows of a service in an order that does not depend
// on the order in which they were listed. The programs search them by it.
func rawBackends(backends []Backend) []aliothBackend {
	sorted := slices.SortedFunc(slices.Values(backends), compareBackends)
	rows := make([]aliothBackend, 0, len(sorted))
	for _, b := range sorted {
		rows = append(rows, b.raw())
	}
	return rows
}

func (b Backend) raw() aliothBackend {
	row := aliothBackend{Ip: rawAddr(b.IP), Port: networkOrder(b.Port)}
	if b.Outside {
		row.Outside = 1
	}
	return row
}

func (row aliothBackend) cooked() Backend {
	return Backend{IP: cookedAddr(row.Ip), Port: networkOrder(row.Port), Outside: row.Outside != 0}
}

func compareBackends(a, b Backend) int {
	return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(a.Port, b.Port))
}

// nextServiceID returns an id above all in use. Ids run through 2^32 values
// before they would repeat.
func (t *tables) nextServiceID() uint32 {
	if t.nextID != 0 {
		return t.nextID
	}
	next := uint32(1)
	for _, row := range t.services {
		next = max(next, row.Id+1)
	}
	for key := range t.backends {
		next = max(next, key.Service+1)
	}
	for id := range t.choices {
		next = max(next, id+1)
	}
	for key := range t.maglev {
		next = max(next, key.Service+1)
	}
	return next
}

func (t *tables) backendsOf(s aliothService) []aliothBackend {
	rows := make([]aliothBackend, 0, s.Backends)
	for slot := range s.Backends {
		rows = append(rows, t.backends[aliothBackendKey{Service: s.Id, Slot: slot}])
	}
	return rows
}

func (t *tables) cookedService(key aliothServiceKey, row aliothService) Service {
	s := Service{
		VNI: key.Vni, VIP: cookedAddr(key.Vip), Port: networkOrder(key.Port), Proto: key.Proto,
		Affinity: time.Duration(t.choices[row.Id].Affinity) * time.Second,
	}
	for _, b := range t.backendsOf(row) {
		s.Backends = append(s.Backends, b.cooked())
	}
	return s
}
