// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostlink

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netfilter"
)

// TableName is the name of the table of nf_tables, of family inet, that guards the UDP port
// of VXLAN links. It is apart from the table of the datapath, whose replacement resets
// accounts of flows: this one changes with every node of the cluster.
const TableName = "alioth_links"

// filterVersion goes into the fingerprint: a release that changes the rules changes it.
const filterVersion = 2

// filter is the input of the table: only Peers reach Port, by the device that leads to them,
// and only the VXLAN links send to it. The kernel itself drops packets with a number that no link has.
type filter struct {
	Port  uint16
	Peers []netip.Addr
}

// guard makes the table of a network namespace equal to the filter, and leaves it alone when it is.
func (f filter) guard(space ns.NetNS) error {
	conn, err := nftables.New(nftables.WithNetNSFd(int(space.Fd())))
	if err != nil {
		return fmt.Errorf("open a socket of nf_tables: %w", err)
	}
	if f.held(conn) {
		return nil
	}
	conn.AddTable(table()) // because deleting one that is not there fails the transaction
	conn.DelTable(table())
	conn.AddTable(table())
	for _, family := range families {
		if err := conn.AddSet(family.set(), f.elements(family)); err != nil {
			return fmt.Errorf("add a set of nodes: %w", err)
		}
	}
	for _, c := range f.chains() {
		at := conn.AddChain(c.chain)
		for _, r := range c.rules {
			conn.AddRule(
				&nftables.Rule{
					Table:    table(),
					Chain:    at,
					Exprs:    r,
					UserData: userdata.AppendString(nil, userdata.TypeComment, f.fingerprint()),
				},
			)
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("replace packet filter table %s: %w", TableName, err)
	}
	return nil
}

// unguard deletes the table. A missing table is not an error.
func unguard(space ns.NetNS) error {
	conn, err := nftables.New(nftables.WithNetNSFd(int(space.Fd())))
	if err != nil {
		return fmt.Errorf("open a socket of nf_tables: %w", err)
	}
	conn.DelTable(table())
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("delete packet filter table %s: %w", TableName, err)
	}
	return nil
}

func table() *nftables.Table {
	return &nftables.Table{Name: TableName, Family: nftables.TableFamilyINet}
}

// family is one of the families of addresses, with the place of the source in the packet
// (RFC 791 section 3.1, RFC 8200 section 3).
type family struct {
	name           string
	protocol       byte
	kind           nftables.SetDatatype
	offset, length uint32
}

var families = []family{
	{"nodes4", unix.NFPROTO_IPV4, nftables.TypeIPAddr, 12, 4},
	{"nodes6", unix.NFPROTO_IPV6, nftables.TypeIP6Addr, 8, 16},
}

func (f family) set() *nftables.Set {
	return &nftables.Set{Table: table(), Name: f.name, KeyType: f.kind}
}

func (f filter) elements(of family) []nftables.SetElement {
	var list []nftables.SetElement
	for _, ip := range f.Peers {
		if uint32(ip.BitLen()) == 8*of.length {
			list = append(list, nftables.SetElement{Key: ip.AsSlice()})
		}
	}
	return list
}

type rulesOf struct {
	chain *nftables.Chain
	rules [][]expr.Any
}

func (f filter) chains() []rulesOf {
	drop := []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}}
	// A host at another device must not be taken for a node.
	arriving := [][]expr.Any{slices.Concat(f.toPort(), netfilter.Astray(), drop)}
	for _, of := range families {
		arriving = append(arriving, slices.Concat(f.toPort(), []expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{of.protocol}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: of.offset, Len: of.length},
			&expr.Lookup{SourceRegister: 1, SetName: of.name, Invert: true},
		}, drop))
	}
	untracked := slices.Concat(f.toPort(), []expr.Any{&expr.Notrack{}})
	// Packets of the links have no socket of the node, so the kernel finds no user for them.
	bySocket := slices.Concat(f.toPort(), []expr.Any{&expr.Meta{Key: expr.MetaKeySKUID, Register: 1}}, drop)
	chain := func(name string, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
		return &nftables.Chain{Name: name, Table: table(), Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: priority}
	}
	return []rulesOf{
		{chain("arriving", nftables.ChainHookPrerouting, nftables.ChainPriorityRaw), append(arriving, untracked)},
		{chain("leaving", nftables.ChainHookOutput, nftables.ChainPriorityRaw), [][]expr.Any{bySocket, untracked}},
	}
}

// toPort holds for packets to the port.
func (f filter) toPort() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(f.Port)},
	}
}

// fingerprint identifies the input of the rules; each rule has it as its comment.
func (f filter) fingerprint() string {
	return fmt.Sprintf("alioth %x", sha256.Sum256(fmt.Append(nil, filterVersion, f.Port, f.Peers)))[:40]
}

// held reports whether the kernel has the table as guard would make it.
func (f filter) held(conn *nftables.Conn) bool {
	have, err := conn.ListTableOfFamily(TableName, nftables.TableFamilyINet)
	if err != nil || netfilter.Asleep(have) {
		return false
	}
	for _, c := range f.chains() {
		rules, err := conn.GetRules(table(), c.chain)
		if err != nil || len(rules) != len(c.rules) {
			return false
		}
		for _, r := range rules {
			if comment, ok := userdata.GetString(r.UserData, userdata.TypeComment); !ok || comment != f.fingerprint() {
				return false
			}
		}
	}
	for _, of := range families {
		elements, err := conn.GetSetElements(of.set())
		if err != nil || !sameKeys(elements, f.elements(of)) {
			return false
		}
	}
	return true
}

func sameKeys(a, b []nftables.SetElement) bool {
	keys := func(list []nftables.SetElement) []string {
		var all []string
		for _, e := range list {
			all = append(all, string(e.Key))
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(keys(a), keys(b))
}
