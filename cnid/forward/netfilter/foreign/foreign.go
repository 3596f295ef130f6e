// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreign finds chains of other programs that certainly drop Alioth's
// packets: in tables of nf_tables, and in those of legacy iptables where
// iptables-legacy-save is installed.
package foreign

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
)

// Traffic is what every packet filter of the host has to accept.
type Traffic struct {
	// Shadows are the ranges of shadow addresses, of the families in which
	// packets leave the node.
	Shadows []netip.Prefix
	// PodGroup, NodeDevice and TunnelPort are those of ruleset.State. PodDevices is the
	// prefix of the names of pods' devices.
	PodGroup   uint32
	PodDevices string
	NodeDevice string
	TunnelPort uint16
	// Underlay is the device of the node's network, UnderlayGroup its group. Tunnel is the
	// node's address there, or the zero value if the host's stack does not see the tunnel.
	Underlay      string
	UnderlayGroup uint32
	Tunnel        netip.Addr
	// HostPorts reports whether ports of the node lead to pods.
	HostPorts bool
}

// Block is a chain of another program that drops some of the traffic.
type Block struct {
	// Chain is the base chain: family, table and chain for nft(8); command, table
	// and chain for legacy iptables.
	Chain string
	// Drops describes the dropped packets.
	Drops string
	// Rules are the commands that accept them.
	Rules []string
}

// String is one sentence with the remedy.
func (b Block) String() string {
	return fmt.Sprintf("chain %s of another program drops %s; let them through: %s", b.Chain, b.Drops, strings.Join(b.Rules, " && "))
}

// Blocks reads the tables of other programs in the current network namespace and
// returns the chains that certainly drop some of the traffic, sorted by name.
func Blocks(ctx context.Context, t Traffic) ([]Block, error) {
	crossings := t.crossings()
	list, err := nftBlocks(&nftables.Conn{}, crossings)
	if err != nil {
		return nil, err
	}
	for _, f := range legacyFamilies {
		legacy, err := f.blocks(ctx, crossings)
		if err != nil {
			return nil, err
		}
		list = append(list, legacy...)
	}
	slices.SortStableFunc(list, func(a, b Block) int { return strings.Compare(a.Chain, b.Chain) })
	return list, nil
}

// crossing is traffic through one hook.
type crossing struct {
	hook    *nftables.ChainHook
	what    string
	samples []sample
	// nft and legacy are conditions that a rule has to match to accept the
	// traffic.
	nft, legacy []string
	// legacyChain is the chain of legacy iptables at the hook. legacyNames are
	// conditions of rules that are made for this traffic.
	legacyChain string
	legacyNames []string
}

func (t Traffic) crossings() []crossing {
	forward := crossing{
		hook: nftables.ChainHookForward, what: "packets that pods exchange with destinations outside of their VPC",
		// By the group, because other devices may have a name that begins as a pod's.
		nft:         []string{fmt.Sprintf("iifgroup %#x", t.PodGroup), fmt.Sprintf("oifgroup %#x", t.PodGroup)},
		legacy:      []string{fmt.Sprintf("-m devgroup --src-group %#x", t.PodGroup), fmt.Sprintf("-m devgroup --dst-group %#x", t.PodGroup)},
		legacyChain: "FORWARD",
	}
	// Rules by the name are of earlier releases, or of the administrator: they accept, too.
	forward.legacyNames = append(slices.Clone(forward.legacy), fmt.Sprintf("-i %s+", t.PodDevices), fmt.Sprintf("-o %s+", t.PodDevices))
	pod := device{t.PodDevices + strings.Repeat("0", 12), t.PodGroup}
	underlay := device{t.Underlay, t.UnderlayGroup}
	for _, shadow := range t.Shadows {
		family, address := ipfamily.Of(shadow.Addr()).Number(), shadow.Addr().Next()
		forward.legacyNames = append(forward.legacyNames, shadow.String())
		for _, peer := range []device{underlay, {name: t.NodeDevice}} {
			forward.samples = append(forward.samples,
				sample{family: family, in: pod, out: peer, source: address, state: ctNew},
				sample{family: family, in: peer, out: pod, destination: address, state: ctEstablished})
		}
		if t.HostPorts {
			forward.samples = append(forward.samples, sample{family: family, in: underlay, out: pod, destination: address, state: ctNew})
		}
	}
	if !t.Tunnel.IsValid() {
		return []crossing{forward}
	}
	return []crossing{forward, {
		hook: nftables.ChainHookInput, what: "VXLAN packets from other nodes' pods",
		samples: []sample{{family: ipfamily.Of(t.Tunnel).Number(), in: underlay, destination: t.Tunnel, udpPort: t.TunnelPort, state: ctUntracked}},
		nft:     []string{fmt.Sprintf("udp dport %d", t.TunnelPort)},
		legacy:  []string{fmt.Sprintf("-p udp --dport %d", t.TunnelPort)},

		legacyChain: "INPUT", legacyNames: []string{fmt.Sprintf("--dport %d", t.TunnelPort)},
	}}
}

// has reports whether some of the traffic is of the family.
func (c crossing) has(family byte) bool {
	return slices.ContainsFunc(c.samples, func(p sample) bool { return p.family == family })
}

// block names a chain and its remedy: insert with each condition in place of %s.
func (c crossing) block(chain, insert string, conditions []string) Block {
	b := Block{Chain: chain, Drops: c.what}
	for _, condition := range conditions {
		b.Rules = append(b.Rules, fmt.Sprintf(insert, condition))
	}
	return b
}

// nftBlocks returns the chains of nf_tables that drop a crossing.
func nftBlocks(conn *nftables.Conn, crossings []crossing) ([]Block, error) {
	tables, err := conn.ListTables()
	if err != nil {
		return nil, fmt.Errorf("list packet filter tables: %w", err)
	}
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list packet filter chains: %w", err)
	}
	families := map[nftables.TableFamily]string{nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6", nftables.TableFamilyINet: "inet"}
	var list []Block
	for _, from := range tables {
		own := from.Family == nftables.TableFamilyINet && from.Name == netfilter.TableName
		if own || families[from.Family] == "" || netfilter.Asleep(from) {
			continue
		}
		t := readTable(conn, from, chains)
		for name, base := range t {
			title := fmt.Sprintf("%s %s %s", families[from.Family], from.Name, name)
			for _, c := range crossings {
				if base.hook != nil && *base.hook == *c.hook && t.drops(from.Family, name, c.samples) {
					list = append(list, c.block(title, "nft insert rule "+title+" %s accept", c.nft))
				}
			}
		}
	}
	return list, nil
}

// drops reports whether a base chain drops a sample that the table sees.
func (t table) drops(family nftables.TableFamily, name string, samples []sample) bool {
	return slices.ContainsFunc(samples, func(p sample) bool {
		return (family == nftables.TableFamilyINet || byte(family) == p.family) && t.blocked(name, p)
	})
}

// readTable reads the chains of a table. It omits chains that are deleted
// meanwhile.
func readTable(conn *nftables.Conn, from *nftables.Table, chains []*nftables.Chain) table {
	t := table{}
	for _, c := range chains {
		if c.Table.Name != from.Name || c.Table.Family != from.Family {
			continue
		}
		rules, err := conn.GetRules(from, c)
		if err != nil {
			continue
		}
		one := chain{drops: c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop}
		if c.Type == nftables.ChainTypeFilter {
			one.hook = c.Hooknum
		}
		for _, r := range rules {
			one.rules = append(one.rules, r.Exprs)
		}
		t[c.Name] = one
	}
	return t
}
