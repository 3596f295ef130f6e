// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
)

// Session affinity. A client's place is an element of a map. The kernel deletes it after
// its timeout, and each new flow renews it. Each VPC has its own maps, one per family: a
// sender with forged sources fills only the maps of the receiving VPC. When a map is full,
// new clients get a place by their address, without a timeout.

// clientsPrefix begins the names of the maps.
const clientsPrefix = "clients_"

// clientsPerVPC is how many places of clients a VPC has at most, per family.
const clientsPerVPC = 4096

func clientsName(vni uint32, family byte) string {
	return mapName(fmt.Sprintf("%s%d_", clientsPrefix, vni), family)
}

// clientMaps are those that frontends need, by name. Chains have rules for both families.
func clientMaps(frontends []*ruleset.Frontend) map[string]bool {
	needed := map[string]bool{}
	for _, f := range frontends {
		if f.Affinity == 0 {
			continue
		}
		for _, family := range families() {
			needed[clientsName(f.VNI, family)] = true
		}
	}
	return needed
}

// heldClients are those that the table has.
func heldClients(conn *nftables.Conn) (map[string]bool, error) {
	sets, err := conn.GetSets(table())
	if err != nil {
		return nil, fmt.Errorf("list sets of packet filter table %s: %w", TableName, err)
	}
	held := map[string]bool{}
	for _, set := range sets {
		if strings.HasPrefix(set.Name, clientsPrefix) {
			held[set.Name] = true
		}
	}
	return held, nil
}

// firstClients is above the ids of all other sets of a transaction.
const firstClients = 1000

// addClientMaps adds the missing maps to the transaction, and reports whether there are
// any. Chains that use them are added later.
func addClientMaps(conn *nftables.Conn, have, needed map[string]bool) (added bool, err error) {
	for i, name := range slices.Sorted(maps.Keys(needed)) {
		if have[name] {
			continue
		}
		added = true
		if err := conn.AddSet(clientMap(name, firstClients+uint32(i)), nil); err != nil {
			return false, fmt.Errorf("add map %s: %w", name, err)
		}
	}
	return added, nil
}

// dropClientMaps adds the deletion of unused maps to the transaction, and reports whether
// there are any. Chains that used them are deleted before.
func dropClientMaps(conn *nftables.Conn, have, needed map[string]bool) (dropped bool) {
	for name := range have {
		if !needed[name] {
			dropped = true
			conn.DelSet(&nftables.Set{Table: table(), Name: name})
		}
	}
	return dropped
}

// clientMap maps a client and a frontend to a place.
func clientMap(name string, id uint32) *nftables.Set {
	ip := addressType(unix.NFPROTO_IPV6)
	if name == mapName(strings.TrimSuffix(name, "4"), unix.NFPROTO_IPV4) {
		ip = addressType(unix.NFPROTO_IPV4)
	}
	return &nftables.Set{
		Table: table(), ID: id, Name: name, Concatenation: true, Dynamic: true, HasTimeout: true, Size: clientsPerVPC,
		IsMap:    true,
		KeyType:  nftables.MustConcatSetType(ip, ip, nftables.TypeInetProto, nftables.TypeInetService),
		DataType: nftables.MustConcatSetType(ip, nftables.TypeInetService),
	}
}

// client returns the 4-byte registers of a client with affinity: its address, the key of
// the frontend, and the place, in this order. The first two are the key in the map of
// clients, and the last two the key in the set of valid places.
func (p pick) client(family byte) (load rule, frontend, place uint32) {
	frontend = keyRegister + words(family)
	place = frontend + words(family) + 2
	ip := loadSource(family, keyRegister)
	return when(ofFamily(family), rule{ip}, loadKeyAt(frontend, family, p.ofNode)), frontend, place
}

// stay sends a client to its place, if that is still valid, and renews it.
func (p pick) stay(family byte) rule {
	load, frontend, place := p.client(family)
	return when(load, rule{
		p.look(family, place),
		&expr.Lookup{SourceRegister: frontend, SetName: mapName(stayPrefix+p.from, family)},
		p.remember(family, place, unix.NFT_DYNSET_OP_UPDATE),
		translate(family, place),
	})
}

// settle assigns any place to a client and replaces an earlier one. A place that a
// parallel packet of the client got has precedence. If the map is full the rule does not
// match.
func (p pick) settle(family byte) rule {
	load, frontend, place := p.client(family)
	return when(load, rule{
		&expr.Numgen{Register: place, Modulus: uint32(p.slots), Type: unix.NFT_NG_RANDOM},
		&expr.Lookup{SourceRegister: frontend, SetName: mapName(p.from, family), DestRegister: place, IsDestRegSet: true},
		p.remember(family, place, dynsetDelete),
		p.remember(family, place, unix.NFT_DYNSET_OP_UPDATE),
		p.look(family, place),
		translate(family, place),
	})
}

// dynsetDelete is NFT_DYNSET_OP_DELETE, of Linux 5.4.
const dynsetDelete = 2

func (p pick) look(family byte, place uint32) expr.Any {
	return &expr.Lookup{
		SourceRegister: keyRegister, SetName: clientsName(p.vni, family), DestRegister: place, IsDestRegSet: true,
	}
}

func (p pick) remember(family byte, place, operation uint32) expr.Any {
	return &expr.Dynset{
		SrcRegKey: keyRegister, SrcRegData: place, SetName: clientsName(p.vni, family), Operation: operation,
		Timeout: p.affinity,
	}
}

func loadSource(family byte, register uint32) expr.Any {
	client := load(source, family).(*expr.Payload)
	client.DestRegister = register
	return client
}
