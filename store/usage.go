// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/store/memory"
)

// counts has the number of addresses that are taken from one source, and the last assigned
// ones. It needs no row of the source.
type counts struct {
	source string
	// count of addresses and last chosen address, by Family.Index.
	count  [2]int64
	cursor [2]netip.Addr
}

var countsBySource = memory.Define(memory.Table[counts]{
	Name: "counts",
	Key:  func(u *counts) []byte { return memory.TextKey(u.source) },
})

// sourceOf returns the source of an address: the name of the Subnet object, or the domain
// of the network outside of every VPC behind a slash, which no name of an object has.
func sourceOf(row *Address) string {
	if row.Network.UID != "" {
		return networkSource(row.Domain())
	}
	return row.Subnet
}

func networkSource(domain string) string { return "/" + domain }

// CountAddressesBySubnet returns how many addresses of a Subnet object are in the store, per
// family, without addresses that are held back. It costs the same however many there are.
func CountAddressesBySubnet(tx ReadTx, subnet string) (v4, v6 int64) {
	return countAddresses(tx, subnet)
}

// CountAddressesByNetwork returns how many addresses of a network outside of every VPC are in the
// store, per family, without addresses that are held back. The domain is NetworkRef.Domain.
func CountAddressesByNetwork(tx ReadTx, domain string) (v4, v6 int64) {
	return countAddresses(tx, networkSource(domain))
}

func countAddresses(tx ReadTx, source string) (v4, v6 int64) {
	row := countsBySource.Get(tx, memory.TextKey(source))
	if row == nil {
		return 0, 0
	}
	return row.count[0], row.count[1]
}

// Cursor returns the last chosen address of a subnet in a family: the address of SetCursor,
// else the address in the subnet's Usage, else the address in the row's status, where earlier
// releases have it. Without such an address the result is not valid.
func Cursor(tx ReadTx, subnet *Subnet, family ipfamily.Family) netip.Addr {
	if live := cursorOf(tx, subnet.Name, family); live.IsValid() {
		return live
	}
	for _, ip := range writtenCursors(tx, subnet) {
		if family.Has(ip) {
			return ip
		}
	}
	return netip.Addr{}
}

// NetworkCursor returns the last chosen address of a network outside of every VPC in a
// family. Without such an address in this process the result is not valid: no status has it.
func NetworkCursor(tx ReadTx, domain string, family ipfamily.Family) netip.Addr {
	return cursorOf(tx, networkSource(domain), family)
}

func cursorOf(tx ReadTx, source string, family ipfamily.Family) netip.Addr {
	row := countsBySource.Get(tx, memory.TextKey(source))
	if row == nil {
		return netip.Addr{}
	}
	return row.cursor[family.Index()]
}

// SetCursor records the last chosen address. The Usage in the API lags behind.
func SetCursor(tx Tx, subnet string, ip netip.Addr) error {
	return changeCounts(tx, subnet, func(u *counts) { u.cursor[ipfamily.Of(ip).Index()] = ip })
}

// SetNetworkCursor records the last chosen address of a network outside of every VPC.
func SetNetworkCursor(tx Tx, domain string, ip netip.Addr) error {
	return changeCounts(tx, networkSource(domain), func(u *counts) { u.cursor[ipfamily.Of(ip).Index()] = ip })
}

// DropNetworkCursors forgets the last chosen addresses of a network that is gone.
func DropNetworkCursors(tx Tx, domain string) { dropCursors(tx, networkSource(domain)) }

func dropCursors(tx Tx, source string) {
	if countsBySource.Get(tx, memory.TextKey(source)) != nil {
		memory.Must(changeCounts(tx, source, func(u *counts) { u.cursor = [2]netip.Addr{} }))
	}
}

// countAddress adds a row to the counts of its source. A row that is held back does not
// count: only the memory of one process has it, and a status must not depend on it.
func countAddress(tx Tx, row *Address, delta int64) error {
	if row.IsHeldBack() || !addresses.HasIndex(tx, bySubnet) {
		return nil
	}
	return changeCounts(tx, sourceOf(row), func(u *counts) { u.count[ipfamily.Of(row.IP).Index()] += delta })
}

func changeCounts(tx Tx, source string, change func(*counts)) error {
	next := counts{source: source}
	if held := countsBySource.Get(tx, memory.TextKey(source)); held != nil {
		next = *held
	}
	change(&next)
	if next == (counts{source: source}) {
		countsBySource.Remove(tx, memory.TextKey(source), "")
		return nil
	}
	return countsBySource.Insert(tx, &next, nil, memory.NewContent)
}

// Usage is the row of a Usage object, as far as somebody reads it. Key: Name.
type Usage struct {
	Meta
	Name string
	// Kind of its Subnet or VPC, and Of, the name.
	Kind, Of string
	// OwnerUID is the UID of the Subnet or VPC that the figures are of. A successor of the
	// same name has another one.
	OwnerUID string
	// Cursors are the last addresses that the operator chose, at most one per family.
	Cursors []netip.Addr
}

const byOwnerUID = "owner-uid"

var usages = memory.Define(memory.Table[Usage]{
	Name: "usage",
	Key:  func(u *Usage) []byte { return memory.TextKey(u.Name) },
	Meta: func(u *Usage) *Meta { return &u.Meta },
	Indexes: map[string]func(*Usage) []byte{
		byOwnerUID: func(u *Usage) []byte { return memory.TextKey(u.OwnerUID) },
	},
})

// GetUsage returns the Usage object of that name, or nil.
func GetUsage(tx ReadTx, name string) *Usage {
	return usages.Get(tx, memory.TextKey(name))
}

// PutUsage inserts or replaces a usage.
func PutUsage(tx Tx, row *Usage) error {
	_, err := usages.Put(tx, row)
	return err
}

// DeleteUsage removes a usage if it has that UID, and reports whether it did.
func DeleteUsage(tx Tx, name, uid string) bool {
	return usages.Remove(tx, memory.TextKey(name), uid) != nil
}

// writtenCursors returns the last chosen addresses of a subnet as the API has them.
func writtenCursors(tx ReadTx, subnet *Subnet) []netip.Addr {
	for _, usage := range usages.List(tx, byOwnerUID, memory.TextKey(subnet.UID)) {
		if len(usage.Cursors) > 0 {
			return usage.Cursors
		}
	}
	return subnet.Cursors
}
