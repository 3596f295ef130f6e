// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreign finds base chains of other programs that drop Alioth's packets with
// all others: in tables of nf_tables, and in tables of legacy iptables where
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
)

// Traffic has the packets that every packet filter of the host has to accept.
type Traffic struct {
	// Shadows are the ranges of shadow addresses, for each IP family whose
	// packets leave the node.
	Shadows []netip.Prefix
	// PodGroup, NodeDevice and TunnelPort are the fields of ruleset.State. PodDevices is the
	// prefix of the names of pods' devices.
	PodGroup   uint32
	PodDevices string
	NodeDevice string
	TunnelPort uint16
	// Underlay is the name of the device of the node's network, UnderlayIndex its index,
	// UnderlayGroup its group. Tunnel is the node's address there, or the zero value if the
	// host's stack does not see the tunnel.
	Underlay                     string
	UnderlayIndex, UnderlayGroup uint32
	Tunnel                       netip.Addr
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
	return fmt.Sprintf(
		"chain %s of another program drops %s; let them through: %s",
		b.Chain,
		b.Drops,
		strings.Join(b.Rules, " && "),
	)
}

// Blocks reads the tables of other programs in the current network namespace and returns the base
// chains that drop Alioth's packets by their policy, or by rules without conditions, while no rule
// is made for these packets, sorted by name.
func Blocks(ctx context.Context, t Traffic) ([]Block, error) {
	list, err := nftBlocks(&nftables.Conn{}, t)
	if err != nil {
		return nil, err
	}
	for _, f := range legacyFamilies {
		legacy, err := f.blocks(ctx, t)
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
	hook     *nftables.ChainHook
	what     string
	families []byte
	packets  ours
	// nft and legacy are the conditions of the rules that accept the traffic.
	nft, legacy []string
	// legacyChain is the chain of legacy iptables at the hook.
	legacyChain string
}

func (t Traffic) crossings() (list []crossing) {
	forward := crossing{
		hook: nftables.ChainHookForward, what: "packets that pods exchange with destinations outside of their VPC",
		packets: fromPods | replies,
		// By the group, because other devices may have a name that begins as a pod's.
		nft: []string{fmt.Sprintf("iifgroup %#x", t.PodGroup), fmt.Sprintf("oifgroup %#x", t.PodGroup)},
		legacy: []string{
			fmt.Sprintf("-m devgroup --src-group %#x", t.PodGroup),
			fmt.Sprintf("-m devgroup --dst-group %#x", t.PodGroup),
		},
		legacyChain: "FORWARD",
	}
	if t.HostPorts { // others begin flows, too
		forward.packets |= toPods
	}
	for _, shadow := range t.Shadows {
		forward.families = append(forward.families, ipfamily.Of(shadow.Addr()).Number())
	}
	list = append(list, forward)
	if t.Tunnel.IsValid() {
		list = append(list, crossing{
			hook: nftables.ChainHookInput, what: "VXLAN packets from other nodes' pods",
			families: []byte{ipfamily.Of(t.Tunnel).Number()}, packets: tunnel,
			nft:         []string{fmt.Sprintf("udp dport %d", t.TunnelPort)},
			legacy:      []string{fmt.Sprintf("-p udp --dport %d", t.TunnelPort)},
			legacyChain: "INPUT",
		})
	}
	return list
}

// has reports whether some of the traffic is of the family.
func (c crossing) has(family byte) bool { return slices.Contains(c.families, family) }

// block names a chain and its remedy: insert with each condition in place of %s.
func (c crossing) block(chain, insert string, conditions []string) Block {
	b := Block{Chain: chain, Drops: c.what}
	for _, condition := range conditions {
		b.Rules = append(b.Rules, fmt.Sprintf(insert, condition))
	}
	return b
}
