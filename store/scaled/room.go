// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scaled

import (
	"cmp"
	"iter"
	"slices"

	"github.com/alioth-net/alioth/store"
)

// Room is how much of a node's tables something takes.
type Room struct {
	// Rows are one for each virtual address, and one for each port of it.
	Rows int
	// Backends are those of all ports of all virtual addresses.
	Backends int
}

// RoomOfVPC is what the Services of one VPC may take together, whatever its tenants
// make: an eighth of the tables.
var RoomOfVPC = Room{Rows: 16384, Backends: 32768}

// Plus returns what both take together.
func (r Room) Plus(other Room) Room {
	return Room{Rows: r.Rows + other.Rows, Backends: r.Backends + other.Backends}
}

// Minus returns what is left when the other goes.
func (r Room) Minus(other Room) Room {
	return Room{Rows: r.Rows - other.Rows, Backends: r.Backends - other.Backends}
}

// Holds reports whether there is room for the other.
func (r Room) Holds(other Room) bool { return other.Rows <= r.Rows && other.Backends <= r.Backends }

// RoomFor returns what a Service takes in its VPC. It counts what its slices name, so that it
// is the same for all nodes, whatever they hold and wherever they are.
func RoomFor(tx store.ReadTx, vpc string, service *store.Service) Room {
	var r Room
	list := store.EndpointSlicesByService(tx, service.Namespace, service.Name)
	for _, vip := range VIPs(tx, vpc, service) {
		r.Rows += 1 + len(service.Ports)
		for _, port := range service.Ports {
			r.Backends += min(endpoints(list, port, vip.Is4()), MaxBackends)
		}
	}
	return r
}

// endpoints counts those that slices name for a port, of one family.
func endpoints(list []*store.EndpointSlice, port store.ServicePort, is4 bool) (count int) {
	for _, slice := range list {
		if portOf(slice, port) == 0 {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			for _, ip := range endpoint.Addresses {
				if ip.Is4() == is4 && (endpoint.Ready || endpoint.Terminating) {
					count++
				}
			}
		}
	}
	return count
}

// Age orders Services: the oldest has room first.
func Age(a, b *store.Service) int { return cmp.Or(a.Created.Compare(b.Created), compare(a, b)) }

// Fitting returns how many there is room for in a VPC, in their order: where one
// does not fit, nothing after it does, so that what comes never takes the place of
// what is there.
func Fitting(rooms iter.Seq[Room]) (count int) {
	var taken Room
	for room := range rooms {
		if taken = taken.Plus(room); !RoomOfVPC.Holds(taken) {
			return count
		}
		count++
	}
	return count
}

// Beyond returns those of the Services of a VPC for which there is no room: the
// youngest.
func Beyond(tx store.ReadTx, vpc string, services []*store.Service) []*store.Service {
	sorted := slices.SortedFunc(slices.Values(services), Age)
	fitting := Fitting(func(yield func(Room) bool) {
		for _, service := range sorted {
			if !yield(RoomFor(tx, vpc, service)) {
				return
			}
		}
	})
	return sorted[fitting:]
}
