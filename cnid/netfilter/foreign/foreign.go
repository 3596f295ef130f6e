// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreign reads what other programs filter and warns of what drops
// Alioth's packets for certain: tables of nf_tables, and those of legacy
// iptables where iptables-legacy-save is installed.
package foreign

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/netfilter"
)

// Traffic is what the host must let through, whoever else filters there.
type Traffic struct {
	// Shadows are the ranges of shadow addresses, of the families in which
	// packets leave the node.
	Shadows []netip.Prefix
	// PodDevices, NodeDevice and TunnelPort are those of State.
	PodDevices, NodeDevice string
	TunnelPort             uint16
	// Underlay is the device by which the node reaches others. Tunnel is its
	// address there, or the zero value when the host's stack does not see the
	// tunnel.
	Underlay string
	Tunnel   netip.Addr
	// HostPorts says that ports of the node lead to pods.
	HostPorts bool
}

// Block is a chain of somebody else that drops what must get through.
type Block struct {
	// Chain is the base chain, as nft(8) names it: family, table, chain; for one
	// of legacy iptables: the command, table, chain.
	Chain string
	// Drops says what is dropped, for a person.
	Drops string
	// Rules are the commands that let it through.
	Rules []string
}

// String is one sentence with the remedy.
func (b Block) String() string {
	return fmt.Sprintf("chain %s of another program drops %s; let them through: %s", b.Chain, b.Drops, strings.Join(b.Rules, " && "))
}

// Blocks reads the other tables of the current network namespace and returns
// the chains that drop our packets for certain. Of a rule that asks for more
// than devices, addresses, protocol and state it is not known whether it
// matches.
func Blocks(ctx context.Context, t Traffic) ([]Block, error) {
	tables, err := nftTables(&nftables.Conn{})
	if err != nil {
		return nil, err
	}
	legacy, err := legacyTables(ctx)
	if err != nil {
		return nil, err
	}
	var list []Block
	for _, table := range append(tables, legacy...) {
		for _, base := range table {
			list = append(list, table.blocks(base, t)...)
		}
	}
	slices.SortStableFunc(list, func(a, b Block) int { return strings.Compare(a.Chain, b.Chain) })
	return list, nil
}

// crossing is something that must get through one hook.
type crossing struct {
	hook    *nftables.ChainHook
	what    string
	samples []sample
	// conditions are what rules must match to let it through, in the words of
	// nft and of iptables.
	conditions, legacy []string
}

func (t Traffic) crossings() []crossing {
	pod := t.PodDevices + strings.Repeat("0", 12)
	var forwarded []sample
	for _, shadow := range t.Shadows {
		family, address := familyOf(shadow.Addr()), shadow.Addr().Next()
		for _, peer := range []string{t.Underlay, t.NodeDevice} {
			forwarded = append(forwarded,
				sample{family: family, in: pod, out: peer, source: address, state: ctNew},
				sample{family: family, in: peer, out: pod, destination: address, state: ctEstablished})
		}
	}
	if t.HostPorts {
		for _, shadow := range t.Shadows {
			forwarded = append(forwarded, sample{
				family: familyOf(shadow.Addr()), in: t.Underlay, out: pod, destination: shadow.Addr().Next(), state: ctNew,
			})
		}
	}
	list := []crossing{{
		nftables.ChainHookForward, "packets that pods exchange with what is outside of their VPC", forwarded,
		[]string{fmt.Sprintf(`iifname "%s*"`, t.PodDevices), fmt.Sprintf(`oifname "%s*"`, t.PodDevices)},
		[]string{fmt.Sprintf("-i %s+", t.PodDevices), fmt.Sprintf("-o %s+", t.PodDevices)},
	}}
	if !t.Tunnel.IsValid() {
		return list
	}
	const untracked = 1 << 6 // NF_CT_STATE_UNTRACKED_BIT
	tunnel := sample{
		family: familyOf(t.Tunnel), in: t.Underlay, destination: t.Tunnel,
		protocol: unix.IPPROTO_UDP, port: t.TunnelPort, state: untracked,
	}
	return append(list, crossing{
		nftables.ChainHookInput, "packets that pods of other nodes send, which come by VXLAN",
		[]sample{tunnel},
		[]string{fmt.Sprintf("udp dport %d", t.TunnelPort)},
		[]string{fmt.Sprintf("-p udp --dport %d", t.TunnelPort)},
	})
}

// blocks returns what of the traffic a chain drops, if it is one that filters at
// a hook.
func (t table) blocks(base chain, traffic Traffic) []Block {
	var list []Block
	for _, c := range traffic.crossings() {
		if base.hook == nil || *base.hook != *c.hook {
			continue
		}
		for _, p := range c.samples {
			if sees(base.family, p.family) && t.drops(base, p) {
				list = append(list, base.block(c))
				break
			}
		}
	}
	return list
}

// block says how to let something through a chain that drops it.
func (base chain) block(c crossing) Block {
	b := Block{Chain: base.title, Drops: c.what}
	if base.command != "" {
		for _, condition := range c.legacy {
			b.Rules = append(b.Rules, fmt.Sprintf("%s -t %s -I %s %s -j ACCEPT", base.command, base.table, base.name, condition))
		}
		return b
	}
	for _, condition := range c.conditions {
		b.Rules = append(b.Rules, fmt.Sprintf("nft insert rule %s %s accept", base.title, condition))
	}
	return b
}

// sees reports whether a table of that family sees packets of that protocol.
func sees(table nftables.TableFamily, family byte) bool {
	return table == nftables.TableFamilyINet || byte(table) == family
}

func familyName(family nftables.TableFamily) string {
	switch family {
	case nftables.TableFamilyIPv4:
		return "ip"
	case nftables.TableFamilyIPv6:
		return "ip6"
	}
	return "inet"
}

// nftTables reads every table but ours that filters IP packets.
func nftTables(conn *nftables.Conn) ([]table, error) {
	found, err := conn.ListTables()
	if err != nil {
		return nil, fmt.Errorf("list packet filter tables: %w", err)
	}
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list packet filter chains: %w", err)
	}
	var list []table
	for _, one := range found {
		ours := one.Family == nftables.TableFamilyINet && one.Name == netfilter.TableName
		filtersIP := sees(one.Family, unix.NFPROTO_IPV4) || sees(one.Family, unix.NFPROTO_IPV6)
		if ours || !filtersIP || netfilter.Asleep(one) {
			continue
		}
		list = append(list, readTable(conn, one, chains))
	}
	return list, nil
}

// readTable leaves out chains that went meanwhile: they drop nothing.
func readTable(conn *nftables.Conn, from *nftables.Table, chains []*nftables.Chain) table {
	t := table{}
	for _, c := range chains {
		if c.Table.Name != from.Name || c.Table.Family != from.Family {
			continue
		}
		found, err := conn.GetRules(from, c)
		if err != nil {
			continue
		}
		one := chain{
			title:  fmt.Sprintf("%s %s %s", familyName(from.Family), from.Name, c.Name),
			name:   c.Name,
			family: from.Family,
			drops:  c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop,
		}
		if c.Type == nftables.ChainTypeFilter {
			one.hook = c.Hooknum
		}
		for _, r := range found {
			one.rules = append(one.rules, nftRule(r.Exprs))
		}
		t[c.Name] = one
	}
	return t
}

func familyOf(a netip.Addr) byte {
	if a.Is4() {
		return unix.NFPROTO_IPV4
	}
	return unix.NFPROTO_IPV6
}
