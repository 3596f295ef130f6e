// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"iter"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/store"
)

// Usage is the number of rows in a node's tables.
type Usage struct {
	// Rows are one for each virtual address, and one for each port of it.
	Rows int
	// Backends counts the backends of all ports of all virtual addresses.
	Backends int
}

// QuotaOfVPC limits the Services of one VPC together: an eighth of the tables.
var QuotaOfVPC = Usage{Rows: 16384, Backends: 32768}

// Plus returns the sum of both usages.
func (u Usage) Plus(other Usage) Usage {
	return Usage{Rows: u.Rows + other.Rows, Backends: u.Backends + other.Backends}
}

// Minus returns the rest of the usage without the other.
func (u Usage) Minus(other Usage) Usage {
	return Usage{Rows: u.Rows - other.Rows, Backends: u.Backends - other.Backends}
}

// Holds reports whether the quota allows a usage.
func (u Usage) Holds(other Usage) bool { return other.Rows <= u.Rows && other.Backends <= u.Backends }

// UsageOf returns the usage of a Service in its VPC. It counts the addresses that its slices
// name, so that the usage is the same for all nodes, whatever they hold and wherever they are.
func UsageOf(tx store.ReadTx, vpc string, service *store.Service) Usage {
	var u Usage
	list := slicesIn(tx, vpc, service)
	for _, vip := range VIPs(tx, vpc, service) {
		u.Rows += 1 + len(service.Ports)
		for _, port := range service.Ports {
			u.Backends += min(endpoints(list, port, ipfamily.Of(vip)), MaxBackends)
		}
	}
	return u
}

// endpoints counts those that slices name for a port, of one family.
func endpoints(list []*store.EndpointSlice, port store.ServicePort, family ipfamily.Family) (count int) {
	for _, slice := range list {
		if portOf(slice, port) == 0 {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			for _, ip := range endpoint.Addresses {
				if family.Has(ip) && (endpoint.Ready || endpoint.Terminating) {
					count++
				}
			}
		}
	}
	return count
}

// Age orders Services: the oldest gets its share of the quota first.
func Age(a, b *store.Service) int { return cmp.Or(a.Created.Compare(b.Created), compare(a, b)) }

// Fitting returns the number of Services of a VPC that the quota allows, in their order. If one
// exceeds it, all later ones are omitted, so that a new Service never displaces an older one.
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

// Beyond returns the Services of a VPC that exceed the quota: the youngest.
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
