// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"net/netip"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// reservation is an address that an instance has reserved: a part of the instance's row, in a
// table of its own because an instance has many. Two instances may say that they have the
// same address: two operators may have written it.
type reservation struct {
	vpc        string
	ip         netip.Addr
	podNetwork string
	instance   Ref
}

func (r *reservation) key() []byte {
	return append(memory.IPKey(memory.TextKey(r.vpc), r.ip), r.instance.key()...)
}

const byPodNetwork = "podnetwork"

var reservations = memory.Define(memory.Table[reservation]{
	Name: "podnetworkreservation",
	Key:  (*reservation).key,
	Indexes: map[string]func(*reservation) []byte{
		byPodNetwork: func(r *reservation) []byte { return append(memory.TextKey(r.podNetwork), r.key()...) },
	},
})

// ReservedBy lists the instances that have reserved an address of a VPC, by namespace and
// name. The name of the VPC is the domain of its addresses.
func ReservedBy(tx store.ReadTx, vpc string, ip netip.Addr) []*Instance {
	var list []*Instance
	for row := range reservations.Seq(tx, memory.Primary, memory.IPKey(memory.TextKey(vpc), ip)) {
		list = append(list, GetInstance(tx, row.instance))
	}
	return list
}

// CountReserved returns the number of addresses that all instances together have reserved in a
// PodNetwork.
func CountReserved(tx store.ReadTx, podNetwork string) int {
	count := 0
	for range reservations.Seq(tx, byPodNetwork, memory.TextKey(podNetwork)) {
		count++
	}
	return count
}

func addReservations(tx store.Tx, row *Instance) error {
	for _, reserved := range row.Reserved {
		for _, ip := range reserved.IPs {
			one := &reservation{vpc: reserved.VPC, ip: ip, podNetwork: reserved.PodNetwork, instance: row.Ref}
			if _, err := reservations.Put(tx, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropReservations removes the reservations of an instance. A nil instance has none.
func dropReservations(tx store.Tx, row *Instance) {
	if row == nil {
		return
	}
	for _, reserved := range row.Reserved {
		for _, ip := range reserved.IPs {
			one := reservation{vpc: reserved.VPC, ip: ip, instance: row.Ref}
			reservations.Remove(tx, one.key(), "")
		}
	}
}
