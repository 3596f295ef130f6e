// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// ruleFamilies are the families of rules that documents have.
func ruleFamilies() map[uint8]string {
	return map[uint8]string{unix.AF_INET: document.FamilyIPv4, unix.AF_INET6: document.FamilyIPv6}
}

// ruleActions maps the actions of rules in the kernel to their words in documents. "" stands for
// the lookup of a table.
func ruleActions() map[uint8]string {
	return map[uint8]string{
		unix.FR_ACT_TO_TBL: "", unix.FR_ACT_BLACKHOLE: document.Blackhole, unix.FR_ACT_UNREACHABLE: document.Unreachable,
		unix.FR_ACT_PROHIBIT: document.Prohibit,
	}
}

// readRule reads a message of a rule, and returns false if a document can't have it.
func readRule(message []byte) (rule document.RouteRule, ok bool) {
	if len(message) < unix.SizeofRtMsg {
		return rule, false
	}
	// A rule has the header of a route (struct fib_rule_hdr).
	header, rest := nl.DeserializeRtMsg(message), attributes(message[unix.SizeofRtMsg:])
	family, known := ruleFamilies()[header.Family]
	action, possible := ruleActions()[header.Type]
	if !known || !possible || header.Tos != 0 || header.Flags&inverted != 0 || !expressible(rest) {
		return rule, false
	}
	rule = document.RouteRule{
		Family: family, Action: action, IncomingInterface: rest.Text(unix.FRA_IIFNAME),
		From:     prefixWord(rest.Address(unix.FRA_SRC), header.Src_len),
		To:       prefixWord(rest.Address(unix.FRA_DST), header.Dst_len),
		Priority: new(int64(rest.Value(unix.FRA_PRIORITY))), Table: new(int64(rest.Value(unix.FRA_TABLE))),
	}
	mask, masked := rest.Number(unix.FRA_FWMASK)
	if mark, marked := rest.Number(unix.FRA_FWMARK); marked || masked {
		rule.Mark = new(mark)
	}
	if masked && mask != math.MaxUint32 {
		rule.Mask = new(mask)
	}
	if length, ok := rest.Number(unix.FRA_SUPPRESS_PREFIXLEN); ok && length != math.MaxUint32 {
		rule.SuppressPrefixLength = new(int(length))
	}
	return compare.NormalRule(rule), true
}

// inverted is FIB_RULE_INVERT (include/uapi/linux/fib_rules.h).
const inverted = 2

// expressible reports whether a rule has only what documents have.
func expressible(list attributes) bool {
	for kind, content := range list.All() {
		switch kind {
		case unix.FRA_SRC, unix.FRA_DST, unix.FRA_IIFNAME, unix.FRA_PRIORITY, unix.FRA_FWMARK, unix.FRA_FWMASK,
			unix.FRA_TABLE, unix.FRA_SUPPRESS_PREFIXLEN, unix.FRA_PROTOCOL, unix.FRA_PAD:
		case unix.FRA_SUPPRESS_IFGROUP:
			if list.Value(kind) != math.MaxUint32 {
				return false
			}
		default:
			// The rest is there with a value of zero in some versions.
			if slices.ContainsFunc(content, func(b byte) bool { return b != 0 }) {
				return false
			}
		}
	}
	return true
}

func prefixWord(a netip.Addr, bits uint8) string {
	if !a.IsValid() {
		return ""
	}
	return netip.PrefixFrom(a, int(bits)).String()
}

// standard reports whether a rule is one of those that the kernel has from the start.
func standard(rule document.RouteRule) bool {
	const last = 32767
	table, first := int64(unix.RT_TABLE_LOCAL), int64(0)
	switch *rule.Priority {
	case first:
	case last - 1:
		table = unix.RT_TABLE_MAIN
	case last:
		table = unix.RT_TABLE_DEFAULT
	default:
		return false
	}
	plain := document.RouteRule{Family: rule.Family, Priority: rule.Priority, Table: new(table)}
	return plan.AddRule{Rule: plain}.String() == plan.AddRule{Rule: rule}.String()
}

// RuleRequest describes a rule.
func RuleRequest(want document.RouteRule) ([]nl.NetlinkRequestData, error) {
	want = compare.NormalRule(want)
	header := nl.NewRtMsg()
	header.Table, header.Protocol, header.Scope, header.Type = unix.RT_TABLE_UNSPEC, 0, 0, 0
	for number, family := range ruleFamilies() {
		if family == want.Family {
			header.Family = number
		}
	}
	for number, action := range ruleActions() {
		if action == want.Action {
			header.Type = number
		}
	}
	if header.Type == 0 {
		return nil, fmt.Errorf("action: %s: want blackhole, unreachable or prohibit", want.Action)
	}
	list := Settings{Sized(unix.FRA_PRIORITY, 4, uint32(*want.Priority))}
	var err error
	if header.Src_len, err = list.prefix("ip-from", unix.FRA_SRC, want.From); err != nil {
		return nil, err
	}
	if header.Dst_len, err = list.prefix("ip-to", unix.FRA_DST, want.To); err != nil {
		return nil, err
	}
	list.selectors(want)
	return Requests(header, list), nil
}

// prefix adds a prefix, and returns its length.
func (s *Settings) prefix(path string, kind uint16, text string) (bits uint8, err error) {
	if text == "" {
		return 0, nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	s.Add(nl.NewRtAttr(int(kind), prefix.Addr().AsSlice()))
	return uint8(prefix.Bits()), nil
}

// selectors adds what else a rule looks at, and where it looks up.
func (s *Settings) selectors(want document.RouteRule) {
	if want.IncomingInterface != "" {
		s.Add(ZeroEnded(unix.FRA_IIFNAME, want.IncomingInterface))
	}
	if want.Mark != nil {
		s.Add(Sized(unix.FRA_FWMARK, 4, *want.Mark))
		mask := uint32(math.MaxUint32)
		if want.Mask != nil {
			mask = *want.Mask
		}
		s.Add(Sized(unix.FRA_FWMASK, 4, mask))
	}
	if want.Action != "" {
		return
	}
	s.Add(Sized(unix.FRA_TABLE, 4, uint32(*want.Table)))
	s.Integer(unix.FRA_SUPPRESS_PREFIXLEN, 4, want.SuppressPrefixLength)
}

// ReadRules returns routing rules, without the kernel's own and without those that have what
// documents have not, such as ports or users.
func ReadRules(messages [][]byte) []document.RouteRule {
	list := []document.RouteRule{}
	for _, message := range messages {
		if rule, ok := readRule(message); ok && !standard(rule) {
			list = append(list, rule)
		}
	}
	slices.SortStableFunc(list, func(a, b document.RouteRule) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(*a.Priority, *b.Priority))
	})
	return list
}
