// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "net/netip"

// usage is what the store adds up per Subnet object, and what was handed out of
// it last. It needs no Subnet row.
type usage struct {
	subnet string
	// count of addresses and last address handed out, by familyIndex.
	count  [2]int64
	cursor [2]netip.Addr
}

var usages = define(table[usage]{
	name: "usage",
	key:  func(u *usage) []byte { return textKey(u.subnet) },
})

// familyIndex is 0 for IPv4 and 1 for IPv6.
func familyIndex(is4 bool) int {
	if is4 {
		return 0
	}
	return 1
}

// CountAddressesBySubnet returns how many addresses of a Subnet object are in
// the store, per family. It costs the same however many there are.
func CountAddressesBySubnet(tx ReadTx, subnet string) (v4, v6 int64) {
	row := usages.get(tx, textKey(subnet))
	if row == nil {
		return 0, 0
	}
	return row.count[0], row.count[1]
}

// Cursor returns the address that was last handed out by choice from a subnet
// in a family: the one of SetCursor, else that of the row's status. It is not
// valid where there is none.
func Cursor(tx ReadTx, subnet *Subnet, is4 bool) netip.Addr {
	if row := usages.get(tx, textKey(subnet.Name)); row != nil {
		if live := row.cursor[familyIndex(is4)]; live.IsValid() {
			return live
		}
	}
	for _, ip := range subnet.Cursors {
		if ip.Is4() == is4 {
			return ip
		}
	}
	return netip.Addr{}
}

// SetCursor records the address that was handed out last by choice. It is kept
// apart from the Subnet's row, whose status lags behind.
func SetCursor(tx Tx, subnet string, ip netip.Addr) error {
	return changeUsage(tx, subnet, func(u *usage) { u.cursor[familyIndex(ip.Is4())] = ip })
}

func dropCursors(tx Tx, subnet string) {
	if usages.get(tx, textKey(subnet)) != nil {
		mustRead(changeUsage(tx, subnet, func(u *usage) { u.cursor = [2]netip.Addr{} }))
	}
}

func countAddress(tx Tx, row *Address, delta int64) error {
	if !tx.base().store.counts {
		return nil
	}
	return changeUsage(tx, row.Subnet, func(u *usage) { u.count[familyIndex(row.IP.Is4())] += delta })
}

func changeUsage(tx Tx, subnet string, change func(*usage)) error {
	next := usage{subnet: subnet}
	if held := usages.get(tx, textKey(subnet)); held != nil {
		next = *held
	}
	change(&next)
	if next == (usage{subnet: subnet}) {
		usages.remove(tx, textKey(subnet), "")
		return nil
	}
	return usages.insert(tx, &next, nil, changeContent)
}
