// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"iter"
	"slices"

	"github.com/alioth-net/alioth/store"
)

// Usage is how much of a node's tables something takes.
type Usage struct {
	// Rows are one for each virtual address, and one for each port of it.
	Rows int
	// Backends are those of all ports of all virtual addresses.
	Backends int
}

// QuotaOfVPC is what the Services of one VPC may take together, whatever its tenants
// make: an eighth of the tables.
var QuotaOfVPC = Usage{Rows: 16384, Backends: 32768}

// Plus returns what both take together.
func (u Usage) Plus(other Usage) Usage {
	return Usage{Rows: u.Rows + other.Rows, Backends: u.Backends + other.Backends}
}

// Minus returns what is left when the other goes.
func (u Usage) Minus(other Usage) Usage {
	return Usage{Rows: u.Rows - other.Rows, Backends: u.Backends - other.Backends}
}

// Holds reports whether there is room for the other.
func (u Usage) Holds(other Usage) bool { return other.Rows <= u.Rows && other.Backends <= u.Backends }

// UsageOf returns what a Service takes in its VPC. It counts what its slices name, so that it
// is the same for all nodes, whatever they hold and wherever they are.
func UsageOf(tx store.ReadTx, vpc string, service *store.Service) Usage {
	var u Usage
	list := store.EndpointSlicesByService(tx, service.Namespace, service.Name)
	for _, vip := range VIPs(tx, vpc, service) {
		u.Rows += 1 + len(service.Ports)
		for _, port := range service.Ports {
			u.Backends += min(endpoints(list, port, vip.Is4()), MaxBackends)
		}
	}
	return u
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
func Fitting(usages iter.Seq[Usage]) (count int) {
	var taken Usage
	for usage := range usages {
		if taken = taken.Plus(usage); !QuotaOfVPC.Holds(taken) {
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
	fitting := Fitting(func(yield func(Usage) bool) {
		for _, service := range sorted {
			if !yield(UsageOf(tx, vpc, service)) {
				return
			}
		}
	})
	return sorted[fitting:]
}
