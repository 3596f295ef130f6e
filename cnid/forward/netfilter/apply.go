// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
)

// TableName is the name of the table, of family inet, that belongs to Alioth.
const TableName = "alioth"

// rulesVersion goes into the fingerprint: a release that changes the rules for
// one and the same ruleset.State changes it.
const rulesVersion = 8

// Apply makes the table equal to the state. It reads what the kernel holds and
// changes nothing when that is the same, so counters survive a restart;
// otherwise the table is replaced in one transaction. HostPorts have chains of
// their own. If only they differ, only these chains are refilled, because pods change
// often, and a new table would reset counters and flow accounts. Frontends are in maps:
// only elements that differ change there. The size of the kernel's conntrack table,
// which limits FlowsPerShadow, counts as part of the state. Apply reports whether
// anything was replaced.
func Apply(want ruleset.State) (replaced bool, err error) {
	want, list, conn, err := begin(want)
	if err != nil {
		return false, err
	}
	if !intact(conn, list) || !holds(conn, list, !variable) {
		return true, replace(conn, want, list)
	}
	if !holds(conn, list, variable) {
		if err := refill(conn, list); err != nil {
			return true, err
		}
		replaced = true
	}
	changed, err := updateFrontends(conn, want)
	return replaced || changed, err
}

// Holds reports whether the table is as Apply would make it, and changes nothing. During
// a concurrent change it may return false.
func Holds(want ruleset.State) (bool, error) {
	want, list, conn, err := begin(want)
	if err != nil {
		return false, err
	}
	if !intact(conn, list) || !holds(conn, list, !variable) || !holds(conn, list, variable) {
		return false, nil
	}
	held, err := readFrontends(conn, want)
	if err != nil {
		return false, err
	}
	changed, err := putFrontends(conn, want, held) // into a transaction that is not committed
	return !changed, err
}

// begin returns the normal form of the state, the chains made from it, and a connection to
// the kernel.
func begin(want ruleset.State) (ruleset.State, []chain, *nftables.Conn, error) {
	want = want.Normal()
	err := want.Validate()
	if err != nil {
		return want, nil, nil, fmt.Errorf("check packet filter rules: %w", err)
	}
	if want.FlowsPerShadow, err = Share(want.FlowsPerShadow, want.Pods); err != nil {
		return want, nil, nil, err
	}
	want.Pods = 0 // beyond that it changes no rule
	list, err := identified(want)
	if err != nil {
		return want, nil, nil, err
	}
	conn, err := nftables.New(nftables.WithSockOptions(roomy))
	if err != nil {
		return want, nil, nil, fmt.Errorf("open a socket of nf_tables: %w", err)
	}
	return want, list, conn, nil
}

// mostSent is the maximum length of a transaction in bytes, which the kernel takes in
// one piece. The frontends of 5,000 Services are some 10 MB. The kernel replies to each
// message, and the replies are read after the last one.
const (
	mostSent     = 64 << 20
	mostAnswered = 8 << 20
)

func roomy(socket *netlink.Conn) error {
	return errors.Join(socket.SetWriteBuffer(mostSent), socket.SetReadBuffer(mostAnswered))
}

// variable chains change with the pods of the node.
const variable = true

// Remove deletes the table. A missing table is not an error.
func Remove() error {
	conn := &nftables.Conn{}
	conn.DelTable(table())
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("delete packet filter table %s: %w", TableName, err)
	}
	return nil
}

// Counter is the number of packets that a reason dropped since the table was made.
type Counter struct {
	Reason         string
	Packets, Bytes uint64
}

// Counters returns one row per reason, in the order of Reasons.
func Counters() ([]Counter, error) {
	conn := &nftables.Conn{}
	objects, err := conn.GetObjects(table())
	if err != nil {
		return nil, fmt.Errorf("read counters of packet filter table %s: %w", TableName, err)
	}
	found := map[string]*nftables.CounterObj{}
	for _, object := range objects {
		if counter, ok := object.(*nftables.CounterObj); ok {
			found[counter.Name] = counter
		}
	}
	var list []Counter
	for _, reason := range Reasons() {
		if counter := found[reason]; counter != nil {
			list = append(list, Counter{Reason: reason, Packets: counter.Packets, Bytes: counter.Bytes})
		}
	}
	return list, nil
}

func table() *nftables.Table {
	return &nftables.Table{Name: TableName, Family: nftables.TableFamilyINet}
}

// identified returns the chains of a state, each with the fingerprint of its input.
// Each rule has it as its comment.
func identified(s ruleset.State) ([]chain, error) {
	fixed := s
	fixed.HostPorts, fixed.Frontends = nil, nil
	ofTable, err := fingerprint(fixed)
	if err != nil {
		return nil, err
	}
	ofPorts, err := fingerprint(s.HostPorts)
	if err != nil {
		return nil, err
	}
	list := chains(s)
	for i := range list {
		list[i].mark = ofTable
		if list[i].variable {
			list[i].mark = ofPorts
		}
	}
	return list, nil
}

// fingerprint identifies the input of rules.
func fingerprint(from any) (string, error) {
	text, err := json.Marshal(struct {
		Version int
		State   any
	}{rulesVersion, from})
	if err != nil {
		return "", fmt.Errorf("encode packet filter state: %w", err)
	}
	return fmt.Sprintf("alioth %x", sha256.Sum256(text))[:40], nil
}

// holds reports whether the kernel has every rule of the chains that are variable,
// or of the other ones, and no further rule. An unreadable rule counts as missing, so it
// is replaced.
func holds(conn *nftables.Conn, list []chain, variable bool) bool {
	for _, c := range list {
		if c.variable == variable && !holdsChain(conn, c) {
			return false
		}
	}
	return true
}

func holdsChain(conn *nftables.Conn, c chain) bool {
	rules, err := conn.GetRules(table(), &nftables.Chain{Name: c.name, Table: table()})
	if err != nil || len(rules) != len(c.rules) {
		return false
	}
	for _, r := range rules {
		if comment, ok := userdata.GetString(r.UserData, userdata.TypeComment); !ok || comment != c.mark {
			return false
		}
	}
	return true
}

// intact reports whether the table is active and has exactly these chains, all with the
// policy accept.
func intact(conn *nftables.Conn, list []chain) bool {
	have, err := conn.ListTableOfFamily(TableName, nftables.TableFamilyINet)
	if err != nil || Asleep(have) {
		return false
	}
	found, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return false
	}
	count := 0
	for _, c := range found {
		if c.Table.Name != TableName || strings.HasPrefix(c.Name, variablePrefix) {
			continue
		}
		count++
		drops := c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop
		if drops || !slices.ContainsFunc(list, func(want chain) bool { return want.name == c.Name }) {
			return false
		}
	}
	return count == len(list)
}

// replace adds the table before deleting it, because deleting one that is not
// there fails the transaction.
func replace(conn *nftables.Conn, want ruleset.State, list []chain) error {
	conn.AddTable(table())
	conn.DelTable(table())
	t := conn.AddTable(table())
	for _, reason := range Reasons() {
		conn.AddObject(&nftables.CounterObj{Table: t, Name: reason})
	}
	if want.FlowsPerShadow > 0 {
		if err := addFlowSets(conn, t); err != nil {
			return err
		}
	}
	if err := addFrontendMaps(conn); err != nil {
		return err
	}
	for _, c := range list {
		added := conn.AddChain(&nftables.Chain{Name: c.name, Table: t, Type: c.kind, Hooknum: c.hook, Priority: c.priority})
		addRules(conn, added, c)
	}
	if _, err := putFrontends(conn, want, heldFrontends{}); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf(
			"replace packet filter table %s (the kernel needs nf_tables with inet, nat, fib, ct, connlimit, objref, numgen, hash and reject): %w",
			TableName, err,
		)
	}
	return nil
}

// refill replaces the rules of the variable chains.
func refill(conn *nftables.Conn, list []chain) error {
	for _, c := range list {
		if !c.variable {
			continue
		}
		at := &nftables.Chain{Name: c.name, Table: table()}
		conn.FlushChain(at)
		addRules(conn, at, c)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("replace rules of host ports in packet filter table %s: %w", TableName, err)
	}
	return nil
}

func addRules(conn *nftables.Conn, at *nftables.Chain, c chain) {
	for _, r := range c.rules {
		conn.AddRule(&nftables.Rule{
			Table: at.Table, Chain: at, Exprs: r, UserData: userdata.AppendString(nil, userdata.TypeComment, c.mark),
		})
	}
}

// Asleep reports whether the table is dormant: its chains see no packets
// (NFT_TABLE_F_DORMANT). The library leaves the flags in the kernel's byte order.
func Asleep(table *nftables.Table) bool {
	const dormant, swapped = 1, 1 << 24
	return table.Flags&(dormant|swapped) != 0
}
