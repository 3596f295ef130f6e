// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"fmt"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/system/conntrack"
)

// The chains that return for a new flow while its account is below the limit. Accounts
// of pods of this node are by their shadows. Accounts of pods that come through the
// node's interface in the default VPC are by their addresses there. Flows to a pod through
// a port of the node have a separate account of the pod's shadow, so that a flood from
// outside does not prevent the pod from opening flows. Flows to another node count on an
// account of the port there, which belongs to one Service.
const (
	podShare    = "pod_share"
	nodeShare   = "node_share"
	servedShare = "served_share"
	relayShare  = "relay_share"
)

// accounts are the chains, each with the side of a packet that determines the account.
func accounts() []account {
	return []account{{podShare, source}, {nodeShare, source}, {servedShare, destination}}
}

type account struct {
	name string
	of   side
}

// maxFlowHolders limits the sets that count flows per source address. The
// kernel removes an address when its last flow has ended.
const maxFlowHolders = 65535

// usualPods is the kubelet's default for the number of pods on a node.
const usualPods = 110

// mostPods limits the number of pods in the Node object, and so the reduction of a
// pod's share.
const mostPods = 2048

// Share returns how many flows one shadow address may hold, if asked is the configured
// number: fewer if conntrack has too few entries for all pods that the node can run. For
// pods 0 it uses usualPods.
func Share(asked, pods uint32) (uint32, error) {
	limit, err := conntrack.Limit()
	if err != nil {
		return 0, err
	}
	return fittingShare(asked, pods, limit), nil
}

// fittingShare bounds the share of a pod, so that all pods of a node together leave a quarter
// of conntrack to the node itself, whatever they do.
func fittingShare(asked, pods, limit uint32) uint32 {
	if asked == 0 || limit == 0 {
		return asked
	}
	if pods == 0 {
		pods = usualPods
	}
	return max(1, min(asked, uint32(uint64(limit)*3/4/uint64(min(pods, mostPods)))))
}

func families() []byte { return []byte{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6} }

// shares returns the chains that count flows.
func shares(s ruleset.State) []chain {
	if s.FlowsPerShadow == 0 {
		return nil
	}
	var list []chain
	for _, a := range accounts() {
		list = append(list, chain{name: a.name, rules: share(s, a)})
	}
	port := &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
	return append(list, chain{name: relayShare, rules: []rule{
		when(rule{port, counting(s, relayFlows)}, verdict(expr.VerdictReturn)), drop(ReasonFlowLimit),
	}})
}

// share returns to the caller if the address is counted and below its limit. The counting
// statement does not match if the set is full. So the rule that matches accepts, and the
// following one drops.
func share(s ruleset.State, a account) []rule {
	var rules []rule
	for _, family := range families() {
		counted := rule{load(a.of, family), counting(s, flowSet(a.name, family))}
		rules = append(rules, when(ofFamily(family), counted, verdict(expr.VerdictReturn)))
	}
	return append(rules, drop(ReasonFlowLimit))
}

// counting holds while the account of the address in register 1 is below its limit.
func counting(s ruleset.State, set string) expr.Any {
	return &expr.Dynset{
		SrcRegKey: 1, SetName: set, Operation: unix.NFT_DYNSET_OP_ADD,
		Exprs: []expr.Any{&expr.Connlimit{Count: s.FlowsPerShadow}},
	}
}

// relayFlows is the set of accounts of flows to other nodes.
const relayFlows = "relay_flows"

// limit sends the new flows of a device through the chain of shares.
func limit(s ruleset.State, device rule, name string) []rule {
	if s.FlowsPerShadow == 0 {
		return nil
	}
	return []rule{when(device, opening(), jump(name))}
}

func flowSet(share string, family byte) string {
	prefix := strings.TrimSuffix(share, "share") + "flows"
	if family == unix.NFPROTO_IPV4 {
		return prefix + "4"
	}
	return prefix + "6"
}

func addFlowSets(conn *nftables.Conn, t *nftables.Table) error {
	kinds := map[byte]nftables.SetDatatype{unix.NFPROTO_IPV4: nftables.TypeIPAddr, unix.NFPROTO_IPV6: nftables.TypeIP6Addr}
	id := uint32(0)
	for _, a := range accounts() {
		for _, family := range families() {
			id++
			set := &nftables.Set{
				Table: t, ID: id, Name: flowSet(a.name, family), KeyType: kinds[family], Dynamic: true, Size: maxFlowHolders,
			}
			if err := conn.AddSet(set, nil); err != nil {
				return fmt.Errorf("add set %s: %w", set.Name, err)
			}
		}
	}
	set := &nftables.Set{
		Table: t, ID: id + 1, Name: relayFlows, KeyType: nftables.TypeInetService, Dynamic: true, Size: maxFlowHolders,
	}
	if err := conn.AddSet(set, nil); err != nil {
		return fmt.Errorf("add set %s: %w", set.Name, err)
	}
	return nil
}
