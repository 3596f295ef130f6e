// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"net/netip"
	"slices"
)

// ExternalPool is the row of an ExternalPool object. Key: Name.
type ExternalPool struct {
	Meta
	Name string
	// Ranges of addresses, all of which may be used.
	Ranges         []AddrRange
	AllowedTenants []string
	// ForExternalIPs: tenants name its addresses in spec.externalIPs; otherwise load
	// balancers get them.
	ForExternalIPs bool
	Ready          bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

var externalPools = define(table[ExternalPool]{
	name: "externalpool",
	key:  func(p *ExternalPool) []byte { return textKey(p.Name) },
	meta: func(p *ExternalPool) *Meta { return &p.Meta },
})

// GetExternalPool returns the ExternalPool object of that name, or nil.
func GetExternalPool(tx ReadTx, name string) *ExternalPool {
	return externalPools.get(tx, textKey(name))
}

// Older reports whether a pool precedes another one: by creation, then name.
func (p *ExternalPool) Older(other *ExternalPool) bool { return externalPools.byAge(p, other) < 0 }

// ListExternalPools returns all ExternalPool objects in the order of their
// creation, then name.
func ListExternalPools(tx ReadTx) []*ExternalPool {
	return externalPools.oldestFirst(tx, primary, []byte{})
}

// PutExternalPool inserts or replaces an ExternalPool.
func PutExternalPool(tx Tx, row *ExternalPool) error {
	_, err := externalPools.put(tx, row)
	return err
}

// DeleteExternalPool removes an ExternalPool if it has that UID, and reports
// whether it did. Addresses of the pool stay.
func DeleteExternalPool(tx Tx, name, uid string) bool {
	return externalPools.remove(tx, textKey(name), uid) != nil
}

// ExternalAddress is the row of an ExternalAddress object. Key: IP.
type ExternalAddress struct {
	Meta
	IP netip.Addr
	// Pool is the name of the ExternalPool.
	Pool string
	// Holder is a Service.
	Holder Holder
	// Node that announces the address; "" while none can.
	Node string
}

const byPool = "pool"

var externalAddresses = define(table[ExternalAddress]{
	name: "externaladdress",
	key:  func(a *ExternalAddress) []byte { return ipKey(nil, a.IP) },
	meta: func(a *ExternalAddress) *Meta { return &a.Meta },
	indexes: map[string]func(*ExternalAddress) []byte{
		byHolder: func(a *ExternalAddress) []byte { return textKey(a.Holder.UID) },
		byPool:   func(a *ExternalAddress) []byte { return textKey(a.Pool) },
	},
})

// GetExternalAddress returns the ExternalAddress of that IP, or nil.
func GetExternalAddress(tx ReadTx, ip netip.Addr) *ExternalAddress {
	return externalAddresses.get(tx, ipKey(nil, ip))
}

// ExternalAddressesByService returns the external addresses that the Service of
// that UID holds, by IP.
func ExternalAddressesByService(tx ReadTx, uid string) []*ExternalAddress {
	return externalAddresses.list(tx, byHolder, textKey(uid))
}

// ExternalAddressesByPool returns the addresses that were taken from an
// ExternalPool, by IP.
func ExternalAddressesByPool(tx ReadTx, pool string) []*ExternalAddress {
	return externalAddresses.list(tx, byPool, textKey(pool))
}

// ListExternalAddresses returns all external addresses by IP.
func ListExternalAddresses(tx ReadTx) []*ExternalAddress {
	return slices.Collect(externalAddresses.all(tx))
}

// PutExternalAddress inserts or replaces an external address.
func PutExternalAddress(tx Tx, row *ExternalAddress) error {
	_, err := externalAddresses.put(tx, row)
	return err
}

// AssumeExternalAddress inserts the row of an external address that is about to be
// created in the API, as AssumeAddress does.
func AssumeExternalAddress(tx Tx, row *ExternalAddress) error {
	if held := GetExternalAddress(tx, row.IP); held != nil {
		return fmt.Errorf("assume external address %s: held by Service %s/%s: %w", row.IP, held.Holder.Namespace, held.Holder.Name, ErrConflict)
	}
	assumed := *row
	assumed.Meta = Meta{}
	return PutExternalAddress(tx, &assumed)
}

// ConfirmExternalAddress replaces an assumed row, as GetExternalAddress gave it before
// the creation, by the one that the API returned. It does nothing where the assumed
// row is gone, as ConfirmAddress.
func ConfirmExternalAddress(tx Tx, assumed, row *ExternalAddress) error {
	if held := GetExternalAddress(tx, row.IP); held == nil || held != assumed || held.UID != "" {
		return nil
	}
	return PutExternalAddress(tx, row)
}

// DeleteExternalAddress removes an external address if it has that UID, and reports
// whether it did. The empty UID is that of an assumed row.
func DeleteExternalAddress(tx Tx, ip netip.Addr, uid string) bool {
	return externalAddresses.remove(tx, ipKey(nil, ip), uid) != nil
}
