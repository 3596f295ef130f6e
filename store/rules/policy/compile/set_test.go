// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compile_test

import (
	"net/netip"
	"slices"
	"testing"

	rows "github.com/alioth-net/alioth/store/rows/policy"
	"github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/store/rules/policy/compile"
	"github.com/alioth-net/alioth/test/policyspec/lookup"
)

// subject is a pod with the port web, its peers are "a", "b" and "c".
var subject = policy.Identity{VPC: "red", Namespace: "n", Ports: []policy.Port{{Name: "web", Protocol: "TCP", Port: 8080}}}

func labelled(app string) *rows.Pods {
	return &rows.Pods{Namespaces: nil, Pods: rows.Selector{{Key: "app", Operator: rows.In, Values: []string{app}}}}
}

func block(cidr string, except ...string) rows.Peer {
	b := &rows.Block{CIDR: netip.MustParsePrefix(cidr)}
	for _, one := range except {
		b.Except = append(b.Except, netip.MustParsePrefix(one))
	}
	return rows.Peer{Block: b}
}

func tcp(first, last uint16) rows.Ports { return rows.Ports{Protocol: "TCP", First: first, Last: last} }

// world compiles rules of one direction: of a tier each, with a NetworkPolicy that isolates.
func world(direction rows.Direction, admin, namespaced, baseline []rows.Rule) (set *compile.Set, ordered []*rows.Policy) {
	for tier, rules := range [][]rows.Rule{admin, namespaced, baseline} {
		p := &rows.Policy{Key: rows.Key{Kind: rows.ClusterNetworkPolicy, Name: "p"}, Tier: rows.Tier(tier)}
		if p.Rules[direction] = rules; p.Tier == rows.Namespaced {
			if rules == nil {
				continue
			}
			p.Isolates[direction] = true
		}
		ordered = append(ordered, p)
	}
	return compile.New(direction, ordered, subject.Ports), ordered
}

// packet is a packet to or from a peer; a peer without labels is outside.
type packet struct {
	app, ip  string
	protocol compile.Protocol
	port     uint16
	allowed  bool
	rank     uint32
}

func check(t *testing.T, name string, set *compile.Set, packets []packet) {
	t.Helper()
	add := lookup.NewAdder()
	add.Nets(t, 7, 1, set)
	for _, p := range packets {
		seen := lookup.Packet{Identity: lookup.Outside, IPs: []netip.Addr{netip.MustParseAddr(p.ip)}, Protocol: p.protocol, Port: p.port}
		if p.app != "" {
			seen.Identity = 256 + uint32(p.app[0])
			peer := compile.Peer{Identity: policy.Identity{VPC: "red", Namespace: "n", Labels: map[string]string{"app": p.app}, Ports: subject.Ports}}
			add.Peer(t, lookup.PeerKey{VNI: 7, Set: 1, Identity: seen.Identity}, set.Peer(&peer))
		}
		got := add.Maps.Judge(lookup.Guard{VNI: 7, Set: 1, Isolated: set.Isolation != nil}, seen)
		if want := (lookup.Verdict{Allowed: p.allowed, Rank: p.rank}); got != want {
			t.Errorf("%s: %+v is %+v, want %+v", name, p, got, want)
		}
	}
}

func TestSet_Ranges_EachPartOfThem(t *testing.T) {
	const tcpPort = compile.TCP
	for name, c := range map[string]struct {
		peers   []rows.Peer
		packets []packet
	}{
		"an exception": {[]rows.Peer{block("10.0.0.0/8", "10.1.0.0/16")}, []packet{
			{ip: "10.0.0.1", protocol: tcpPort, allowed: true, rank: 1},
			{ip: "10.1.0.1", protocol: tcpPort, rank: lookup.Isolated},
			{ip: "11.0.0.1", protocol: tcpPort, rank: lookup.Isolated},
			{ip: "10.2.0.0", protocol: tcpPort, allowed: true, rank: 1},
		}},
		"an exception in an exception of another": {[]rows.Peer{block("10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24"), block("10.1.2.0/23", "10.1.2.3/32")}, []packet{
			{ip: "10.1.2.1", protocol: tcpPort, allowed: true, rank: 1},
			{ip: "10.1.2.3", protocol: tcpPort, rank: lookup.Isolated},
			{ip: "10.1.4.1", protocol: tcpPort, rank: lookup.Isolated},
			{ip: "10.1.3.1", protocol: tcpPort, allowed: true, rank: 1},
		}},
		"exceptions one after another": {[]rows.Peer{block("10.0.0.0/8", "10.1.0.0/16"), block("10.2.0.0/16", "10.2.0.0/24")}, []packet{
			{ip: "10.2.0.1", protocol: tcpPort, allowed: true, rank: 1},
		}},
		"an exception of everything": {[]rows.Peer{block("10.0.0.0/8", "10.0.0.0/8"), block("10.0.0.0/8", "0.0.0.0/0")}, []packet{
			{ip: "10.0.0.1", protocol: tcpPort, rank: lookup.Isolated},
		}},
		"all of IPv4": {[]rows.Peer{block("0.0.0.0/0")}, []packet{
			{ip: "203.0.113.1", protocol: tcpPort, allowed: true, rank: 1},
			{ip: "2001:db8::1", protocol: tcpPort, rank: lookup.Isolated},
			{ip: "::1", protocol: tcpPort, rank: lookup.Isolated},
		}},
		"all of IPv6": {[]rows.Peer{block("::/0", "fd00::/8")}, []packet{
			{ip: "203.0.113.1", protocol: tcpPort, rank: lookup.Isolated},
			{ip: "2001:db8::1", protocol: tcpPort, allowed: true, rank: 1},
			{ip: "fd00::1", protocol: tcpPort, rank: lookup.Isolated},
		}},
		"both, without an exception of the other": {[]rows.Peer{block("::/0", "::/0"), block("0.0.0.0/0", "::/0")}, []packet{
			{ip: "203.0.113.1", protocol: tcpPort, allowed: true, rank: 1}, {ip: "2001:db8::1", protocol: tcpPort, rank: lookup.Isolated},
		}},
		"one address in a range": {[]rows.Peer{block("10.0.0.0/24"), block("10.0.0.5/32")}, []packet{
			{ip: "10.0.0.5", protocol: tcpPort, allowed: true, rank: 1},
		}},
		"nothing": {nil, []packet{{ip: "10.0.0.5", protocol: tcpPort, rank: lookup.Isolated}}},
	} {
		set, _ := world(rows.Ingress, nil, []rows.Rule{{Action: rows.Accept, Peers: c.peers}}, nil)
		check(t, name, set, c.packets)
	}
}

func TestSet_Tiers_EarlierRuleDecides(t *testing.T) {
	a, b := rows.Peer{Pods: labelled("a")}, rows.Peer{Pods: labelled("b")}
	all := []rows.Peer{{Pods: &rows.Pods{}}}
	set, _ := world(rows.Ingress,
		[]rows.Rule{
			{Action: rows.Pass, Peers: []rows.Peer{a}, Ports: []rows.Ports{tcp(80, 80)}}, // 1, and 2
			{Action: rows.Deny, Peers: []rows.Peer{block("10.0.0.0/8")}},                 // 3
			{Action: rows.Accept, Peers: []rows.Peer{b}},                                 // 4
		},
		[]rows.Rule{{Action: rows.Accept, Peers: all, Ports: []rows.Ports{tcp(80, 89)}}}, // 5
		[]rows.Rule{{Action: rows.Deny, Everyone: true}})                                 // 6
	check(t, "with isolation", set, []packet{
		{"a", "10.0.0.1", compile.TCP, 80, true, 5},
		{"a", "10.0.0.1", compile.TCP, 81, false, 3},
		{"a", "192.0.2.1", compile.TCP, 81, true, 5},
		{"a", "192.0.2.1", compile.UDP, 80, false, lookup.Isolated},
		{"b", "10.0.0.1", compile.TCP, 80, false, 3},
		{"b", "192.0.2.1", compile.Others, 0, true, 4},
		{"", "192.0.2.1", compile.TCP, 80, false, lookup.Isolated},
	})
	set, _ = world(rows.Ingress, []rows.Rule{{Action: rows.Pass, Peers: all}}, nil,
		[]rows.Rule{{Action: rows.Accept, Peers: []rows.Peer{a}}, {Action: rows.Deny, Everyone: true}})
	check(t, "Pass to the last tier", set, []packet{
		{"a", "10.0.0.1", compile.SCTP, 80, true, 3}, {"b", "10.0.0.1", compile.Others, 0, false, 4},
	})
	set, _ = world(rows.Ingress, []rows.Rule{{Action: rows.Pass, Peers: all}}, nil, nil)
	check(t, "Pass to nothing", set, []packet{{"a", "10.0.0.1", compile.TCP, 80, true, 0}})
}

func TestSet_Ports_EachForm(t *testing.T) {
	everyone := func(ports ...rows.Ports) []rows.Rule {
		return []rows.Rule{{Action: rows.Accept, Everyone: true, Ports: ports}}
	}
	for name, c := range map[string]struct {
		direction rows.Direction
		rules     []rows.Rule
		packets   []packet
	}{
		"without ports": {rows.Ingress, everyone(), []packet{{"a", "10.0.0.1", compile.Others, 0, true, 1}, {"", "fd00::1", compile.UDP, 9, true, 1}}},
		"all ports of TCP": {rows.Ingress, everyone(tcp(0, 65535)), []packet{
			{"", "10.0.0.1", compile.TCP, 65535, true, 1},
			{"", "10.0.0.1", compile.UDP, 1, false, lookup.Isolated},
			{"", "10.0.0.1", compile.Others, 0, false, lookup.Isolated},
		}},
		"a range": {rows.Ingress, everyone(tcp(1000, 2000)), []packet{
			{"", "10.0.0.1", compile.TCP, 999, false, lookup.Isolated},
			{"", "10.0.0.1", compile.TCP, 1000, true, 1},
			{"", "10.0.0.1", compile.TCP, 2000, true, 1},
			{"", "10.0.0.1", compile.TCP, 2001, false, lookup.Isolated},
		}},
		"the pod's own named port": {rows.Ingress, everyone(rows.Ports{Name: "web"}), []packet{
			{"", "10.0.0.1", compile.TCP, 8080, true, 1}, {"", "10.0.0.1", compile.UDP, 8080, false, lookup.Isolated},
		}},
		"a named port of another protocol": {rows.Ingress, everyone(rows.Ports{Name: "web", Protocol: "UDP"}), []packet{
			{"", "10.0.0.1", compile.TCP, 8080, false, lookup.Isolated}, {"", "10.0.0.1", compile.UDP, 8080, false, lookup.Isolated},
		}},
		"the peer's named port": {rows.Egress, everyone(rows.Ports{Name: "web"}), []packet{
			{"a", "10.0.0.1", compile.TCP, 8080, true, 1}, {"", "10.0.0.1", compile.TCP, 8080, false, lookup.Isolated},
		}},
	} {
		set, _ := world(c.direction, nil, c.rules, nil)
		check(t, name, set, c.packets)
	}
}

// TestSet_NamedPortOfRange_Refused: an address has no named ports, so only refusals count.
func TestSet_NamedPortOfRange_Refused(t *testing.T) {
	peers := []rows.Peer{block("10.0.0.0/8"), {Pods: labelled("a")}}
	ports := []rows.Ports{{Name: "web"}, tcp(443, 443)}
	for _, c := range []struct {
		action  rows.Action
		next    rows.Action
		packets []packet
	}{
		{rows.Accept, rows.Deny, []packet{
			{"a", "10.0.0.1", compile.TCP, 8080, true, 1}, {"b", "10.0.0.1", compile.TCP, 8080, false, 2}, {"b", "10.0.0.1", compile.TCP, 443, true, 1},
		}},
		{rows.Deny, rows.Accept, []packet{{"b", "10.0.0.1", compile.TCP, 9, false, 1}, {"b", "11.0.0.1", compile.TCP, 9, true, 2}}},
		{rows.Pass, rows.Deny, []packet{
			{"a", "10.0.0.1", compile.TCP, 8080, true, 0},
			{"b", "10.0.0.1", compile.TCP, 443, true, 0},
			{"b", "10.0.0.1", compile.TCP, 9, false, 2},
			{"b", "10.0.0.1", compile.UDP, 9, false, 2},
			{"b", "10.0.0.1", compile.Others, 0, false, 3},
		}},
	} {
		set, _ := world(rows.Egress, []rows.Rule{{Action: c.action, Peers: peers, Ports: ports}, {Action: c.next, Everyone: true}}, nil, nil)
		check(t, "a rule with named ports and ranges", set, c.packets)
		if !slices.Equal(set.Unresolved, []uint32{1}) {
			t.Errorf("unresolved are %v, want rank 1", set.Unresolved)
		}
	}
}

func TestPeer_OmittedKey_UndecidedAndRefused(t *testing.T) {
	unknown := &compile.Peer{Identity: policy.Identity{VPC: "red", Namespace: "n"}, Omitted: []string{"app", "role"}}
	exists := &rows.Pods{Pods: rows.Selector{{Key: "app", Operator: rows.Exists}}}
	lacks := &rows.Pods{Pods: rows.Selector{{Key: "app", Operator: rows.DoesNotExist}}}
	elsewhere := &rows.Pods{Namespace: "other", Pods: labelled("a").Pods}
	for name, c := range map[string]struct {
		action    rows.Action
		pods      []*rows.Pods
		undecided bool
		want      rows.Action
	}{
		"accept":                       {rows.Accept, []*rows.Pods{labelled("a")}, true, 0},
		"deny":                         {rows.Deny, []*rows.Pods{labelled("a")}, true, rows.Deny},
		"pass":                         {rows.Pass, []*rows.Pods{labelled("a")}, true, rows.Deny},
		"a label that exists":          {rows.Accept, []*rows.Pods{exists}, false, rows.Accept},
		"a label that must not exist":  {rows.Deny, []*rows.Pods{lacks}, false, 0},
		"of another namespace":         {rows.Deny, []*rows.Pods{elsewhere}, false, 0},
		"decided by another selection": {rows.Pass, []*rows.Pods{labelled("a"), exists}, false, rows.Pass},
	} {
		rule := rows.Rule{Action: c.action}
		for _, pods := range c.pods {
			rule.Peers = append(rule.Peers, rows.Peer{Pods: pods})
		}
		set, ordered := world(rows.Ingress, []rows.Rule{rule}, nil, nil)
		row := set.Peer(unknown)
		var got rows.Action
		if row.List != nil {
			got = row.List.Ports[0].Rules[rows.Admin].Action
		}
		if got != c.want || (len(row.Undecided) == 1 && row.Undecided[0] == ordered[0].Key) != c.undecided {
			t.Errorf("%s: action %d, undecided %v, want %d and undecided: %t", name, got, row.Undecided, c.want, c.undecided)
		}
	}
}

// TestPeer_EqualRules_OneList: a list is shared by all peers with the same rules.
func TestPeer_EqualRules_OneList(t *testing.T) {
	exists := &rows.Pods{Pods: rows.Selector{{Key: "app", Operator: rows.Exists}}}
	set, _ := world(rows.Ingress, nil, []rows.Rule{{Action: rows.Accept, Peers: []rows.Peer{{Pods: exists}}, Ports: []rows.Ports{tcp(1, 1)}}}, nil)
	var lists []*compile.List
	for _, app := range []string{"a", "b"} {
		lists = append(lists, set.Peer(&compile.Peer{Identity: policy.Identity{Labels: map[string]string{"app": app}}}).List)
	}
	if lists[0] == nil || lists[0] != lists[1] {
		t.Errorf("the lists are %p and %p, want one", lists[0], lists[1])
	}
	if row := set.Peer(&compile.Peer{}); row.List != nil || len(row.Undecided) != 0 {
		t.Errorf("a peer that no rule matches has %+v", row)
	}
}
