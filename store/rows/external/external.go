// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
	"github.com/alioth-net/alioth/store/sound"
)

// Pool is the row of an ExternalPool object. Key: Name.
type Pool struct {
	store.Meta
	Name string
	// Ranges of addresses. All addresses of a range may be used.
	Ranges         []store.AddrRange
	AllowedTenants []string
	// ForExternalIPs: tenants name its addresses in spec.externalIPs; otherwise load
	// balancers get them.
	ForExternalIPs bool
	Ready          bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

var pools = memory.Define(memory.Table[Pool]{
	Name: "externalpool",
	Key:  func(p *Pool) []byte { return memory.TextKey(p.Name) },
	Meta: func(p *Pool) *store.Meta { return &p.Meta },
})

// GetPool returns the ExternalPool object of that name, or nil.
func GetPool(tx store.ReadTx, name string) *Pool {
	return pools.Get(tx, memory.TextKey(name))
}

// Older reports whether a pool precedes another one: by creation, then name.
func (p *Pool) Older(other *Pool) bool { return pools.ByAge(p, other) < 0 }

// ListPools returns all ExternalPool objects in the order of their
// creation, then name.
func ListPools(tx store.ReadTx) []*Pool {
	return pools.OldestFirst(tx, memory.Primary, []byte{})
}

// PutPool inserts or replaces an ExternalPool.
func PutPool(tx store.Tx, row *Pool) error {
	_, err := pools.Put(tx, row)
	return err
}

// DeletePool removes an ExternalPool if it has that UID, and reports
// whether it did. Addresses of the pool stay.
func DeletePool(tx store.Tx, name, uid string) bool {
	return pools.Remove(tx, memory.TextKey(name), uid) != nil
}

// Address is the row of an ExternalAddress object. Key: IP.
type Address struct {
	store.Meta
	IP netip.Addr
	// Pool is the name of the ExternalPool.
	Pool string
	// Holder is a Service.
	Holder store.Holder
	// Node that announces the address; "" while none can.
	Node string
}

const (
	byHolder = "holder"
	byPool   = "pool"
)

var addresses = memory.Define(memory.Table[Address]{
	Name: "externaladdress",
	Key:  func(a *Address) []byte { return memory.IPKey(nil, a.IP) },
	Meta: func(a *Address) *store.Meta { return &a.Meta },
	Indexes: map[string]func(*Address) []byte{
		byHolder: func(a *Address) []byte { return memory.TextKey(a.Holder.UID) },
		byPool:   func(a *Address) []byte { return memory.TextKey(a.Pool) },
	},
})

// GetAddress returns the ExternalAddress of that IP, or nil.
func GetAddress(tx store.ReadTx, ip netip.Addr) *Address {
	return addresses.Get(tx, memory.IPKey(nil, ip))
}

// AddressesByService returns the external addresses that the Service of
// that UID holds, by IP.
func AddressesByService(tx store.ReadTx, uid string) []*Address {
	return addresses.List(tx, byHolder, memory.TextKey(uid))
}

// AddressesByPool returns the addresses that were taken from an
// ExternalPool, by IP.
func AddressesByPool(tx store.ReadTx, pool string) []*Address {
	return addresses.List(tx, byPool, memory.TextKey(pool))
}

// ListAddresses returns all external addresses by IP.
func ListAddresses(tx store.ReadTx) []*Address {
	return slices.Collect(addresses.All(tx))
}

// PutAddress inserts or replaces an external address.
func PutAddress(tx store.Tx, row *Address) error {
	_, err := addresses.Put(tx, row)
	return err
}

// AssumeAddress inserts the row of an external address that is about to be
// created in the API, as store.AssumeAddress does.
func AssumeAddress(tx store.Tx, row *Address) error {
	if held := GetAddress(tx, row.IP); held != nil {
		return fmt.Errorf(
			"assume external address %s: held by Service %s/%s: %w",
			row.IP,
			held.Holder.Namespace,
			held.Holder.Name,
			store.ErrConflict,
		)
	}
	assumed := *row
	assumed.Meta = store.Meta{}
	return PutAddress(tx, &assumed)
}

// ConfirmAddress replaces an assumed row, as GetAddress returned it before the creation, by the
// row that the API returned. It does nothing where the assumed row is gone, as
// store.ConfirmAddress.
func ConfirmAddress(tx store.Tx, assumed, row *Address) error {
	if held := GetAddress(tx, row.IP); held == nil || held != assumed || held.UID != "" {
		return nil
	}
	return PutAddress(tx, row)
}

// DeleteAddress removes an external address if it has that UID, and reports whether it did. An
// assumed row has the empty UID.
func DeleteAddress(tx store.Tx, ip netip.Addr, uid string) bool {
	return addresses.Remove(tx, memory.IPKey(nil, ip), uid) != nil
}

// Reserved returns the ranges that no pool may have, because they have a meaning of their own on
// every node (RFC 6890).
func Reserved() []netip.Prefix { return sound.Reserved() }
