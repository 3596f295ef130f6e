// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
)

// nftBlocks returns the chains of nf_tables that drop a crossing.
func nftBlocks(conn *nftables.Conn, t Traffic) ([]Block, error) {
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
		read := t.readTable(conn, from, chains)
		for name, base := range read {
			title := fmt.Sprintf("%s %s %s", families[from.Family], from.Name, name)
			for _, c := range t.crossings() {
				sees := from.Family == nftables.TableFamilyINet || c.has(byte(from.Family))
				if sees && base.hook != nil && *base.hook == *c.hook && read.drops(name, c.packets) {
					list = append(list, c.block(title, "nft insert rule "+title+" %s accept", c.nft))
				}
			}
		}
	}
	return list, nil
}

// readTable reads the chains of a table. It omits chains that are deleted meanwhile.
func (t Traffic) readTable(conn *nftables.Conn, from *nftables.Table, chains []*nftables.Chain) table {
	read := table{}
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
			one.rules = append(one.rules, t.rule(r.Exprs))
		}
		read[c.Name] = one
	}
	return read
}

// known is a value that a field of some of Alioth's packets has.
type known struct {
	of    ours
	value []byte
}

// rule reads the expressions of a rule.
func (t Traffic) rule(expressions []expr.Any) rule {
	r := reader{Traffic: t, rule: rule{always: true, means: all, verdict: expr.VerdictContinue}}
	for _, e := range expressions {
		if !r.load(e) && !r.decide(e) {
			r.condition(e)
		}
	}
	if !r.understood {
		r.means = 0
	}
	return r.rule
}

// reader reads one rule.
type reader struct {
	Traffic
	rule
	// loaded has the values of the field that was loaded last.
	loaded []known
	// understood tells that a condition is one that the package understands.
	understood bool
}

// load reports whether an expression loads a field.
func (r *reader) load(e expr.Any) bool {
	switch e := e.(type) {
	case *expr.Meta:
		r.loaded = r.meta(e.Key)
	case *expr.Payload:
		r.loaded = r.payload(e)
	case *expr.Ct:
		r.loaded = state(e.Key)
	case *expr.Bitwise:
		r.loaded = masked(r.loaded, e)
	default:
		return false
	}
	return true
}

// decide reports whether an expression is no condition: a verdict, or without effect on verdicts.
func (r *reader) decide(e expr.Any) bool {
	switch e := e.(type) {
	case *expr.Verdict:
		r.verdict, r.target = e.Kind, e.Chain
	case *expr.Reject:
		r.verdict = expr.VerdictDrop
	case *expr.Target: // of iptables-nft
		if e.Name == "REJECT" {
			r.verdict = expr.VerdictDrop
		}
	case *expr.Match:
		return e.Name == "comment"
	case *expr.Counter, *expr.Log, *expr.Notrack, *expr.Objref, *expr.Immediate:
	default:
		return false
	}
	return true
}

func (r *reader) condition(e expr.Any) {
	r.always = false
	switch e := e.(type) {
	case *expr.Cmp:
		if len(r.loaded) > 0 {
			r.fits(compared(r.loaded, e))
		}
	case *expr.Lookup: // in a set that is not read
		if len(r.loaded) > 0 {
			r.fits(r.loaded[0].of)
		}
	case *expr.Match: // of iptables-nft, whose contents are not read
		if of, ok := matches[e.Name]; ok {
			r.fits(of)
		}
	}
}

// fits notes the packets that fit a condition.
func (r *reader) fits(of ours) { r.means, r.understood = r.means&of, true }

// matches has the conditions of iptables that may mean Alioth's packets.
var matches = map[string]ours{"devgroup": all, "conntrack": replies, "state": replies}

// meta returns the values of a key. The first one belongs to pods.
func (t Traffic) meta(key expr.MetaKey) []known {
	pod, node, group := padded(t.podDevice()), padded(t.NodeDevice), binaryutil.NativeEndian.PutUint32(t.PodGroup)
	switch key {
	case expr.MetaKeyIIFNAME:
		return []known{{fromPods, pod}, {toPods | replies, node}}
	case expr.MetaKeyOIFNAME:
		return []known{{toPods | replies, pod}, {fromPods, node}}
	case expr.MetaKeyIIFGROUP:
		return []known{{fromPods, group}}
	case expr.MetaKeyOIFGROUP:
		return []known{{toPods | replies, group}}
	}
	return nil
}

// state returns the states of connection tracking, from linux/netfilter/nf_conntrack_common.h. The
// state of replies is the first one, because a rule with a set of states rarely begins flows.
func state(key expr.CtKey) []known {
	if key != expr.CtKeySTATE {
		return nil
	}
	const established, begins, untracked = 1 << 1, 1 << 3, 1 << 6
	number := binaryutil.NativeEndian.PutUint32
	return []known{{replies, number(established)}, {fromPods | toPods, number(begins)}, {tunnel, number(untracked)}}
}

// payload returns the values of an address or of the destination port: RFC 791 section 3.1, RFC
// 8200 section 3, RFC 768.
func (t Traffic) payload(e *expr.Payload) (list []known) {
	if e.Base == expr.PayloadBaseTransportHeader && e.Offset == 2 {
		return []known{{tunnel, binaryutil.BigEndian.PutUint16(t.TunnelPort)}}
	}
	if e.Base != expr.PayloadBaseNetworkHeader {
		return nil
	}
	for _, shadow := range t.Shadows {
		address, source, destination := shadow.Addr().Next().AsSlice(), uint32(12), uint32(16)
		if ipfamily.Of(shadow.Addr()) == ipfamily.IPv6 {
			source, destination = 8, 24
		}
		if int(e.Len) > len(address) {
			continue
		}
		switch e.Offset {
		case source:
			list = append(list, known{fromPods, address[:e.Len]})
		case destination:
			list = append(list, known{toPods | replies, address[:e.Len]})
		}
	}
	return list
}

// compared returns the packets for which a comparison holds.
func compared(loaded []known, e *expr.Cmp) (means ours) {
	for _, k := range loaded {
		if e.Op == expr.CmpOpEq && bytes.HasPrefix(k.value, e.Data) || e.Op == expr.CmpOpNeq && !bytes.HasPrefix(k.value, e.Data) {
			means |= k.of
		}
	}
	return means
}

func masked(loaded []known, e *expr.Bitwise) (list []known) {
	for _, k := range loaded {
		if len(k.value) != len(e.Mask) || len(k.value) != len(e.Xor) {
			continue
		}
		value := make([]byte, len(k.value))
		for i := range value {
			value[i] = k.value[i]&e.Mask[i] ^ e.Xor[i]
		}
		list = append(list, known{k.of, value})
	}
	return list
}

// podDevice is the longest name of a pod's device.
func (t Traffic) podDevice() string { return t.PodDevices + strings.Repeat("0", 12) }

// padded returns a device's name as the kernel compares it.
func padded(name string) []byte {
	return append([]byte(name), make([]byte, unix.IFNAMSIZ-len(name))...)
}
