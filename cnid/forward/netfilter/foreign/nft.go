// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

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
	families := map[nftables.TableFamily]string{
		nftables.TableFamilyIPv4: "ip",
		nftables.TableFamilyIPv6: "ip6",
		nftables.TableFamilyINet: "inet",
	}
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
	read, sets := table{}, map[string][]nftables.SetElement{}
	elements := func(set string) []nftables.SetElement {
		if _, ok := sets[set]; !ok {
			// A set that is deleted meanwhile has no elements.
			sets[set], _ = conn.GetSetElements(&nftables.Set{Table: from, Name: set})
		}
		return sets[set]
	}
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
			one.rules = append(one.rules, t.rule(r.Exprs, elements))
		}
		read[c.Name] = one
	}
	return read
}

// rule reads the expressions of a rule. elements returns the elements of a set.
func (t Traffic) rule(expressions []expr.Any, elements func(set string) []nftables.SetElement) rule {
	r := reader{Traffic: t, elements: elements}
	r.rule = rule{always: true, conditions: conditions{fits: all}, verdict: expr.VerdictContinue}
	if !slices.ContainsFunc(expressions, leads) {
		r.elements = func(string) []nftables.SetElement { return nil } // the conditions do not count
	}
	for _, e := range expressions {
		if !r.load(e) && !r.decide(e) {
			r.always = false
			r.condition(e)
		}
	}
	return r.rule
}

// leads reports whether an expression accepts packets or leads them to another chain.
func leads(e expr.Any) bool {
	v, ok := e.(*expr.Verdict)
	return ok && slices.Contains([]expr.VerdictKind{expr.VerdictAccept, expr.VerdictJump, expr.VerdictGoto}, v.Kind)
}

// reader reads one rule.
type reader struct {
	Traffic
	rule
	elements func(set string) []nftables.SetElement
	// loaded is the field that was loaded last.
	loaded field
}

// load reports whether an expression loads a field.
func (r *reader) load(e expr.Any) bool {
	switch e := e.(type) {
	case *expr.Meta:
		r.loaded = r.meta(e.Key)
	case *expr.Payload:
		r.loaded = r.payload(e)
	case *expr.Ct:
		r.loaded = nil
		if e.Key == expr.CtKeySTATE {
			r.loaded = states()
		}
	case *expr.Bitwise:
		r.loaded = masked(r.loaded, e)
	default:
		return false
	}
	return true
}

// decide returns true for an expression that is not a condition: a verdict, or an expression without
// effect on verdicts.
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
	switch e := e.(type) {
	case *expr.Cmp:
		r.add(r.loaded, func(value []byte) bool { return compared(value, e) })
	case *expr.Range:
		r.add(r.loaded, func(value []byte) bool {
			return between(value, e.FromData, e.ToData) == (e.Op == expr.CmpOpEq)
		})
	case *expr.Lookup:
		r.add(r.loaded, func(value []byte) bool {
			return contains(r.elements(e.SetName), value) != e.Invert
		})
	case *expr.Match:
		r.match(e)
	default:
		r.unread = true
	}
}

// compared reports whether a comparison holds for a value.
func compared(value []byte, e *expr.Cmp) bool {
	if len(value) < len(e.Data) {
		return false
	}
	order := bytes.Compare(value[:len(e.Data)], e.Data)
	switch e.Op {
	case expr.CmpOpEq:
		return order == 0
	case expr.CmpOpNeq:
		return order != 0
	case expr.CmpOpLt:
		return order < 0
	case expr.CmpOpLte:
		return order <= 0
	case expr.CmpOpGt:
		return order > 0
	case expr.CmpOpGte:
		return order >= 0
	}
	return false
}

// between reports whether a value is in a range.
func between(value, first, last []byte) bool {
	return bytes.Compare(value, first) >= 0 && bytes.Compare(value, last) <= 0
}

// contains reports whether a set has a value. A set of ranges has two elements for each one: its
// first value, and the first value behind it as an end.
func contains(elements []nftables.SetElement, value []byte) (has bool) {
	ranges := slices.ContainsFunc(elements, func(e nftables.SetElement) bool { return e.IntervalEnd })
	var nearest []byte
	for _, e := range elements {
		if len(e.Key) != len(value) || e.KeyEnd != nil {
			continue // a set of several fields
		}
		order := bytes.Compare(e.Key, value)
		switch {
		case order == 0 && !e.IntervalEnd:
			return true
		case order > 0 || !ranges:
		case bytes.Compare(e.Key, nearest) > 0:
			nearest, has = e.Key, !e.IntervalEnd
		case bytes.Equal(e.Key, nearest):
			has = has || !e.IntervalEnd
		}
	}
	return has
}

func masked(loaded field, e *expr.Bitwise) (list field) {
	for _, k := range loaded {
		if k.value != nil && (len(k.value) != len(e.Mask) || len(k.value) != len(e.Xor)) {
			continue
		}
		k.value = bytes.Clone(k.value)
		for i := range k.value {
			k.value[i] = k.value[i]&e.Mask[i] ^ e.Xor[i]
		}
		list = append(list, k)
	}
	return list
}
