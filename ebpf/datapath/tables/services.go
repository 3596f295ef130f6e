// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"slices"
	"time"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// entriesLeftOut is ENTRIES_LEFT_OUT in types_service.h.
const entriesLeftOut = 1

// maxMaglevParts is MAX_MAGLEV_PARTS in types_service.h.
const maxMaglevParts = 2 * state.MaxAllBackends

// Services: {VNI or 0, vip, port, proto} -> id and number of backends. Backends: {id, slot}
// -> ip, port. Choices and parts of lookup tables: how a new flow finds a backend.
const (
	serviceTable = table[bpf.AliothServiceKey, bpf.AliothService]("services")
	backendTable = table[bpf.AliothBackendKey, bpf.AliothBackend]("backends")
	choiceTable  = table[uint32, bpf.AliothChoice]("choices")
	maglevTable  = table[bpf.AliothMaglevKey, bpf.AliothMaglev]("maglev")
)

// The differences of services include the rows of the other tables.
var (
	backendsTable = &descriptor{anyTable: backendTable}
	choicesTable  = &descriptor{anyTable: choiceTable}
	lookupsTable  = &descriptor{anyTable: maglevTable}
	servicesTable = &descriptor{
		anyTable: serviceTable,
		encode:   func(t *Rows, p part) { t.addServices(p.Services, p.have) },
		decode: func(t *Rows, s *state.State) {
			for key, row := range serviceTable.of(t) {
				if key.Port != 0 {
					s.Services = append(s.Services, t.decodeService(key, row))
				}
			}
		},
	}
)

// addServices writes the services and, for each virtual address, the row that
// marks it as one.
func (t *Rows) addServices(services []state.Service, have *Rows) {
	if len(services) > 0 && t.nextID == 0 {
		t.nextID = have.nextServiceID()
	}
	rows, known, slots := serviceTable.of(t), serviceTable.of(have), backendTable.of(t)
	for _, s := range services {
		key := serviceKey(s)
		backends := encodeBackends(s.Backends)
		row, ok := known[key]
		if !ok || !slices.Equal(backends, have.backendsOf(row)) {
			row = bpf.AliothService{Id: t.nextID, Backends: uint32(len(backends))}
			t.nextID++
		}
		rows[key] = row
		rows[bpf.AliothServiceKey{Vni: s.VNI, Vip: key.Vip}] = bpf.AliothService{}
		for slot, b := range backends {
			slots[bpf.AliothBackendKey{Service: row.Id, Slot: uint32(slot)}] = b
		}
		t.addChoice(row.Id, backends, s, have)
	}
}

func serviceKey(s state.Service) bpf.AliothServiceKey {
	return bpf.AliothServiceKey{Vni: s.VNI, Vip: bpf.EncodeAddr(s.VIP), Port: bpf.NetworkOrder(s.Port), Proto: s.Proto}
}

// addChoice writes how a new flow selects one of the backends. The lookup table of a
// service that is in have is taken from there.
func (t *Rows) addChoice(id uint32, backends []bpf.AliothBackend, of state.Service, have *Rows) {
	entries := lookupEntries(len(backends))
	row := bpf.AliothChoice{Entries: uint32(entries), Affinity: uint32(of.Affinity / time.Second)}
	if of.LeftOut {
		row.Entries = entriesLeftOut
	}
	if row != (bpf.AliothChoice{}) {
		choiceTable.of(t)[id] = row
	}
	known := choiceTable.of(have)[id].Entries == uint32(entries)
	rows, there := maglevTable.of(t), maglevTable.of(have)
	for part := range lookupParts(entries) {
		key := bpf.AliothMaglevKey{Service: id, Part: uint32(part)}
		row, ok := there[key]
		if known = known && ok; !known {
			break
		}
		rows[key] = row
	}
	if known {
		return
	}
	for part, slots := range slices.Collect(slices.Chunk(lookupSlots(backends, entries), aliothMaglevPart)) {
		var row bpf.AliothMaglev
		copy(row.Slot[:], slots)
		rows[bpf.AliothMaglevKey{Service: id, Part: uint32(part)}] = row
	}
}

// aliothMaglevPart is MAGLEV_PART, how many entries of a lookup table are in one row.
const aliothMaglevPart = len(bpf.AliothMaglev{}.Slot)

// lookupParts returns the number of rows of a lookup table.
func lookupParts(entries int) int { return (entries + aliothMaglevPart - 1) / aliothMaglevPart }

// encodeBackends returns the rows of a service, sorted, whatever the order of the list. The
// programs search the rows by this order.
func encodeBackends(backends []state.Backend) []bpf.AliothBackend {
	sorted := slices.SortedFunc(slices.Values(backends), state.Backend.Compare)
	rows := make([]bpf.AliothBackend, 0, len(sorted))
	for _, b := range sorted {
		rows = append(rows, encodeBackend(b))
	}
	return rows
}

func encodeBackend(b state.Backend) bpf.AliothBackend {
	row := bpf.AliothBackend{Ip: bpf.EncodeAddr(b.IP), Port: bpf.NetworkOrder(b.Port)}
	if b.Outside {
		row.Outside = 1
	}
	return row
}

func decodeBackend(row bpf.AliothBackend) state.Backend {
	return state.Backend{IP: bpf.DecodeAddr(row.Ip), Port: bpf.NetworkOrder(row.Port), Outside: row.Outside != 0}
}

// nextServiceID returns an id above all in use. Ids run through 2^32 values
// before they would repeat.
func (t *Rows) nextServiceID() uint32 {
	if t.nextID != 0 {
		return t.nextID
	}
	next := uint32(1)
	for _, row := range serviceTable.of(t) {
		next = max(next, row.Id+1)
	}
	for key := range backendTable.of(t) {
		next = max(next, key.Service+1)
	}
	for id := range choiceTable.of(t) {
		next = max(next, id+1)
	}
	for key := range maglevTable.of(t) {
		next = max(next, key.Service+1)
	}
	return next
}

func (t *Rows) backendsOf(s bpf.AliothService) []bpf.AliothBackend {
	rows := make([]bpf.AliothBackend, 0, s.Backends)
	slots := backendTable.of(t)
	for slot := range s.Backends {
		rows = append(rows, slots[bpf.AliothBackendKey{Service: s.Id, Slot: slot}])
	}
	return rows
}

func (t *Rows) decodeService(key bpf.AliothServiceKey, row bpf.AliothService) state.Service {
	choice := choiceTable.of(t)[row.Id]
	s := state.Service{
		VNI: key.Vni, VIP: bpf.DecodeAddr(key.Vip), Port: bpf.NetworkOrder(key.Port), Proto: key.Proto,
		LeftOut: row.Backends == 0 &&
			choice.Entries == entriesLeftOut, Affinity: time.Duration(choice.Affinity) * time.Second,
	}
	for _, b := range t.backendsOf(row) {
		s.Backends = append(s.Backends, decodeBackend(b))
	}
	return s
}

// EndsFlows reports whether the change of these rows may leave flows without a backend.
// If so, the whole table of flows has to be read.
func (t *Rows) EndsFlows(now *Rows) bool {
	for key, row := range serviceTable.of(t) {
		next, stays := serviceTable.of(now)[key]
		if !stays || key.Proto == state.ProtoUDP && next != row {
			return true
		}
	}
	return false
}

// HasService reports whether a virtual address has a service at this port.
func (t *Rows) HasService(key bpf.AliothServiceKey) bool {
	_, ok := serviceTable.of(t)[key]
	return ok
}

// HasBackend reports whether the service exists and has the backend.
func (t *Rows) HasBackend(key bpf.AliothServiceKey, b bpf.AliothBackend) bool {
	row, ok := serviceTable.of(t)[key]
	return ok && slices.Contains(t.backendsOf(row), b)
}
