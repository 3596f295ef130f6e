// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"net/netip"
	"slices"

	rows "github.com/alioth-net/alioth/store/rows/policy"
)

// Net has the list of a range of addresses. The row with the longest prefix counts, also if its list
// is nil.
type Net struct {
	// Prefix is of IPv6. IPv4 addresses are in their mapped form.
	Prefix netip.Prefix
	List   *List
}

// The ranges of all addresses, and of the addresses of IPv4.
var (
	everything = netip.MustParsePrefix("::/0")
	everyIPv4  = netip.MustParsePrefix("::ffff:0:0/96")
)

// mapped returns a range in the form of Net.
func mapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4() {
		return netip.PrefixFrom(netip.AddrFrom16(p.Addr().As16()), p.Bits()+everyIPv4.Bits()).Masked()
	}
	return p.Masked()
}

// netParts collects the rules that match peers by address.
type netParts struct {
	// parts are in the order of their rules.
	parts []part
	// all are the indexes of the parts that match everyone.
	all    []int
	blocks []block
	// ofRule has the parts of rules with blocks.
	ofRule map[*rule][]int
}

// block is a range of addresses without some parts, for parts of rules.
type block struct {
	*rows.Block
	parts []int
}

// everyone adds a rule that matches all peers. Its named ports are not here: only pods have them.
func (n *netParts) everyone(r *rule) {
	if r.all || len(r.ranges) > 0 {
		n.all = append(n.all, n.put(part{r.Rule, r.tier, r.all, r.ranges}))
	}
}

// add adds a range of addresses to a rule.
func (n *netParts) add(r *rule, b *rows.Block) {
	parts, known := n.ofRule[r]
	if !known {
		if r.all || len(r.ranges) > 0 {
			parts = append(parts, n.put(part{r.Rule, r.tier, r.all, r.ranges}))
		}
		if len(r.names) > 0 {
			if refused, ok := (part{r.Rule, r.tier, false, withoutNames(r.names)}).refusal(); ok {
				parts = append(parts, n.put(refused))
			}
		}
		n.ofRule[r] = parts
	}
	n.blocks = append(n.blocks, block{b, parts})
}

// put adds a part, and returns its index.
func (n *netParts) put(p part) int {
	n.parts = append(n.parts, p)
	return len(n.parts) - 1
}

// withoutNames returns all ports that a named port may mean.
func withoutNames(names []rows.Ports) (ranges []rows.Ports) {
	for _, one := range names {
		ranges = append(ranges, rows.Ports{Protocol: one.Protocol, Last: 1<<portBits - 1})
	}
	return ranges
}

// change is the change of the parts that match from the addresses around a prefix to the addresses in
// it.
type change struct {
	// starts and ends are indexes of blocks.
	starts, ends []int
}

// compile returns the lists by prefix, the least number of them.
func (n *netParts) compile(lists lists) (nets []Net) {
	changes := n.changes()
	prefixes := make([]netip.Prefix, 0, len(changes))
	for prefix := range changes {
		prefixes = append(prefixes, prefix)
	}
	slices.SortFunc(prefixes, comparePrefixes)
	w := &walk{netParts: n, count: make([]int, len(n.parts)), active: make([]bool, len(n.blocks)), lists: lists}
	for _, prefix := range prefixes {
		w.leave(prefix)
		if list := w.enter(prefix, changes[prefix]); list != w.around() {
			nets = append(nets, Net{Prefix: prefix, List: list})
		}
	}
	return nets
}

// changes returns the prefixes at which the matching parts may change, with the changes.
func (n *netParts) changes() map[netip.Prefix]*change {
	all := map[netip.Prefix]*change{everything: {}}
	at := func(prefix netip.Prefix) *change {
		prefix = mapped(prefix)
		if all[prefix] == nil {
			all[prefix] = &change{}
		}
		return all[prefix]
	}
	for i, b := range n.blocks {
		within := b.within()
		if within == nil {
			continue
		}
		at(b.CIDR).starts = append(at(b.CIDR).starts, i)
		for _, hole := range *within {
			at(hole).ends = append(at(hole).ends, i)
		}
	}
	return all
}

// within returns the holes of a block. It returns nil if a hole has all of the block.
func (b *block) within() *[]netip.Prefix {
	var holes []netip.Prefix
	for _, except := range b.Except {
		switch {
		case except.Addr().Is4() != b.CIDR.Addr().Is4() || !except.Overlaps(b.CIDR):
		case except.Bits() <= b.CIDR.Bits():
			return nil
		default:
			holes = append(holes, except)
		}
	}
	if prefix := mapped(b.CIDR); b.CIDR.Addr().Is6() && prefix.Bits() < everyIPv4.Bits() && prefix.Overlaps(everyIPv4) {
		holes = append(holes, everyIPv4)
	}
	return &holes
}

// comparePrefixes orders each prefix before the prefixes in it.
func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// walk goes through prefixes in their order, and knows the parts that match at each.
type walk struct {
	*netParts
	lists lists
	// open are the prefixes around the present one, and itself.
	open []opened
	// active are the blocks that have the addresses here, and count how many of them have a part.
	active []bool
	count  []int
}

// opened is a prefix with its list, and the blocks that it has changed.
type opened struct {
	prefix       netip.Prefix
	list         *List
	started, end []int
}

// leave closes the prefixes that do not contain the next one.
func (w *walk) leave(next netip.Prefix) {
	for n := len(w.open); n > 0 && !w.open[n-1].prefix.Contains(next.Addr()); n-- {
		last := w.open[n-1]
		w.set(last.end, true)
		w.set(last.started, false)
		w.open = w.open[:n-1]
	}
}

// enter opens a prefix, and returns its list.
func (w *walk) enter(prefix netip.Prefix, c *change) *List {
	now := opened{prefix: prefix, started: w.set(c.starts, true), end: w.set(c.ends, false)}
	now.list = w.list()
	w.open = append(w.open, now)
	return now.list
}

// around returns the list of the prefix around the present one.
func (w *walk) around() *List {
	if n := len(w.open); n > 1 {
		return w.open[n-2].list
	}
	return nil
}

// set makes blocks active or not, and returns those that were not so before.
func (w *walk) set(blocks []int, active bool) (changed []int) {
	for _, i := range blocks {
		if w.active[i] == active {
			continue
		}
		w.active[i] = active
		changed = append(changed, i)
		for _, part := range w.blocks[i].parts {
			if active {
				w.count[part]++
			} else {
				w.count[part]--
			}
		}
	}
	return changed
}

// list returns the list of the parts that match here.
func (w *walk) list() *List {
	matching := slices.Clone(w.all)
	for part, n := range w.count {
		if n > 0 {
			matching = append(matching, part)
		}
	}
	slices.Sort(matching)
	parts := make([]part, len(matching))
	for i, index := range matching {
		parts[i] = w.parts[index]
	}
	return w.lists.of(parts)
}
