// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"slices"
	"time"
)

// maxMaglevParts is MAX_MAGLEV_PARTS in types.h.
const maxMaglevParts = 2 * state.MaxAllBackends

// addServices writes the services and, for each virtual address, the row that
// marks it as one.
func (t *tables) addServices(services []state.Service, have *tables) {
	if len(services) > 0 && t.nextID == 0 {
		t.nextID = have.nextServiceID()
	}
	for _, s := range services {
		key := serviceKey(s)
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

func serviceKey(s state.Service) aliothServiceKey {
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
func rawBackends(backends []state.Backend) []aliothBackend {
	sorted := slices.SortedFunc(slices.Values(backends), state.Backend.Compare)
	rows := make([]aliothBackend, 0, len(sorted))
	for _, b := range sorted {
		rows = append(rows, rawBackend(b))
	}
	return rows
}

func rawBackend(b state.Backend) aliothBackend {
	row := aliothBackend{Ip: rawAddr(b.IP), Port: networkOrder(b.Port)}
	if b.Outside {
		row.Outside = 1
	}
	return row
}

func cookedBackend(row aliothBackend) state.Backend {
	return state.Backend{IP: cookedAddr(row.Ip), Port: networkOrder(row.Port), Outside: row.Outside != 0}
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

func (t *tables) cookedService(key aliothServiceKey, row aliothService) state.Service {
	s := state.Service{
		VNI: key.Vni, VIP: cookedAddr(key.Vip), Port: networkOrder(key.Port), Proto: key.Proto,
		Affinity: time.Duration(t.choices[row.Id].Affinity) * time.Second,
	}
	for _, b := range t.backendsOf(row) {
		s.Backends = append(s.Backends, cookedBackend(b))
	}
	return s
}
