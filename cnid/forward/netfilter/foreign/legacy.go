// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
)

// legacyFamily is one family of legacy iptables.
type legacyFamily struct {
	family  byte
	command string
	// names is the file that lists the tables of the network namespace.
	names string
}

var legacyFamilies = []legacyFamily{
	{unix.NFPROTO_IPV6, "ip6tables-legacy", "/proc/thread-self/net/ip6_tables_names"},
	{unix.NFPROTO_IPV4, "iptables-legacy", "/proc/thread-self/net/ip_tables_names"},
}

// tables returns the names of the tables that can drop forwarded or incoming
// packets. A kernel without legacy iptables has neither file nor table.
func (f legacyFamily) tables() []string {
	names, _ := os.ReadFile(f.names)
	return slices.DeleteFunc(
		strings.Fields(string(names)),
		func(name string) bool { return name == "nat" || name == "raw" },
	)
}

// Unread returns a sentence for each family of legacy iptables that has tables in
// the current network namespace while iptables-legacy-save is not installed: it
// is not known whether their rules drop Alioth's packets.
func Unread() []string {
	var list []string
	for _, f := range legacyFamilies {
		names := strings.Join(f.tables(), ", ")
		if _, installed := f.program(); !installed && names != "" {
			list = append(
				list,
				fmt.Sprintf(
					"the node has tables of %s (%s) that the daemon can't read; if packets of pods are lost, look for rules that drop them: %s-save",
					f.command,
					names,
					f.command,
				),
			)
		}
	}
	return list
}

// program returns the path of the program that prints the tables, and whether it is
// installed.
func (f legacyFamily) program() (path string, installed bool) {
	path, err := exec.LookPath(f.command + "-save")
	return path, err == nil
}

// blocks reads the tables where iptables-legacy-save is installed. It does not run
// the program without a table, because the program would make one.
func (f legacyFamily) blocks(ctx context.Context, t Traffic) ([]Block, error) {
	save, installed := f.program()
	if !installed || len(f.tables()) == 0 {
		return nil, nil
	}
	text, err := exec.CommandContext(ctx, save).Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", save, err)
	}
	var list []Block
	for _, one := range strings.Split(string(text), "\n*")[1:] {
		name, rules, _ := strings.Cut(one, "\n")
		read := t.readLegacy(rules)
		for _, c := range t.crossings() {
			if name != "nat" && c.has(f.family) && read.drops(c.legacyChain, c.packets) {
				title := fmt.Sprintf("%s %s %s", f.command, name, c.legacyChain)
				insert := fmt.Sprintf("%s -t %s -I %s %%s -j ACCEPT", f.command, name, c.legacyChain)
				list = append(list, c.block(title, insert, c.legacy))
			}
		}
	}
	return list, nil
}

// legacyChain and legacyRule match a chain with its policy, and a rule that has a target, as
// iptables-save(8) prints them: chain, conditions, j or g, target. legacyComment is a condition
// that always holds.
var (
	legacyChain   = regexp.MustCompile(`(?m)^:(\S+) (\S+) `)
	legacyRule    = regexp.MustCompile(`(?m)^-A (\S+) ((?:[^"\n]|"(?:\\.|[^"\\])*")*?)-([jg]) (\S+)`)
	legacyComment = regexp.MustCompile(`-m comment --comment ("(?:\\.|[^"\\])*"|\S+) `)
)

// legacyVerdicts are the targets that end in a verdict, not in a chain. LOG and other targets
// count as jumps to chains that do not exist.
var legacyVerdicts = map[string]expr.VerdictKind{
	"ACCEPT": expr.VerdictAccept, "DROP": expr.VerdictDrop, "REJECT": expr.VerdictDrop, "RETURN": expr.VerdictReturn,
}

// readLegacy reads the chains of a table.
func (t Traffic) readLegacy(text string) table {
	read := table{}
	for _, match := range legacyChain.FindAllStringSubmatch(text, -1) {
		read[match[1]] = chain{drops: match[2] == "DROP"}
	}
	for _, match := range legacyRule.FindAllStringSubmatch(text, -1) {
		conditions := legacyComment.ReplaceAllString(match[2], "")
		r := rule{
			always:     conditions == "",
			conditions: t.legacyConditions(conditions),
			verdict:    expr.VerdictJump,
			target:     match[4],
		}
		if match[3] == "g" {
			r.verdict = expr.VerdictGoto
		}
		if verdict, ok := legacyVerdicts[r.target]; ok {
			r.verdict = verdict
		}
		one := read[match[1]]
		one.rules = append(one.rules, r)
		read[match[1]] = one
	}
	return read
}

// legacyOption matches an option with its values, as iptables-save(8) prints them.
var (
	legacyOption = regexp.MustCompile(`(! )?(-\S+)((?: (?:"(?:\\.|[^"\\])*"|[^-!" ]\S*))*)`)
	legacyStates = map[string]uint32{"ESTABLISHED": established, "NEW": begins, "UNTRACKED": untracked}
)

// legacyConditions reads the conditions of a rule. Rules by the names of pods' devices are of
// earlier releases, or of the administrator.
func (t Traffic) legacyConditions(text string) conditions {
	c := conditions{fits: all}
	for _, match := range legacyOption.FindAllStringSubmatch(text, -1) {
		inverted, option, value := match[1] != "", match[2], strings.TrimSpace(match[3])
		if option == "-m" {
			continue
		}
		f, holds := t.legacyOption(option, value)
		c.add(f, func(value []byte) bool { return holds(value) != inverted })
	}
	return c
}

// legacyOption returns the field of an option, and whether the option without "!" holds for a value.
func (t Traffic) legacyOption(option, text string) (f field, holds func(value []byte) bool) {
	switch option {
	case "-i":
		return t.meta(expr.MetaKeyIIFNAME), func(value []byte) bool { return legacyDevice(value, text) }
	case "-o":
		return t.meta(expr.MetaKeyOIFNAME), func(value []byte) bool { return legacyDevice(value, text) }
	case "--src-group":
		return t.meta(expr.MetaKeyIIFGROUP), func(value []byte) bool { return legacyGroup(value, text) }
	case "--dst-group":
		return t.meta(expr.MetaKeyOIFGROUP), func(value []byte) bool { return legacyGroup(value, text) }
	case "-p":
		return protocol(), func([]byte) bool { return text == "udp" }
	case "--dport", "--dports":
		return t.port(), func(value []byte) bool { return legacyPort(binaryutil.BigEndian.Uint16(value), text) }
	case "--ctstate", "--state":
		var mask uint32
		for _, state := range strings.Split(text, ",") {
			mask |= legacyStates[state]
		}
		return states(), func(value []byte) bool { return inStates(value, mask) }
	case "-s", "-d":
		in, _ := netip.ParsePrefix(text)
		addresses := t.sources
		if option == "-d" {
			addresses = t.destinations
		}
		return addresses(ipfamily.Of(in.Addr())), func(value []byte) bool { return within(value, in) }
	}
	return nil, nil
}

// legacyDevice reports whether a device has a name, or a name that begins so before "+".
func legacyDevice(value []byte, name string) bool {
	if prefix, wild := strings.CutSuffix(name, "+"); wild {
		return bytes.HasPrefix(value, []byte(prefix))
	}
	return bytes.Equal(value, padded(name))
}

// legacyGroup reports whether a group is one of a text, which may have a mask behind "/".
func legacyGroup(value []byte, text string) bool {
	group, mask, masked := strings.Cut(text, "/")
	if !masked {
		mask = "0xffffffff"
	}
	number, err := strconv.ParseUint(group, 0, 32)
	bits, err2 := strconv.ParseUint(mask, 0, 32)
	return err == nil && err2 == nil && inGroup(value, uint32(number), uint32(bits))
}

// legacyPort reports whether a list of ports and ranges has a port.
func legacyPort(port uint16, list string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(one string) bool {
		from, to, isRange := strings.Cut(one, ":")
		if !isRange {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 16)
		last, err2 := strconv.ParseUint(to, 10, 16)
		return err == nil && err2 == nil && uint64(port) >= first && uint64(port) <= last
	})
}
