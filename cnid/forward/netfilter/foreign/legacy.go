// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
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
	return slices.DeleteFunc(strings.Fields(string(names)), func(name string) bool { return name == "nat" || name == "raw" })
}

// Unread returns a sentence for each family of legacy iptables that has tables in
// the current network namespace while iptables-legacy-save is not installed: it
// is not known whether their rules drop Alioth's packets.
func Unread() []string {
	var list []string
	for _, f := range legacyFamilies {
		names := strings.Join(f.tables(), ", ")
		if _, installed := f.program(); !installed && names != "" {
			list = append(list, fmt.Sprintf("the node has tables of %s (%s) that the daemon can't read; if packets of pods are lost, look for rules that drop them: %s-save",
				f.command, names, f.command))
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
func (f legacyFamily) blocks(ctx context.Context, crossings []crossing) ([]Block, error) {
	save, installed := f.program()
	if !installed || len(f.tables()) == 0 {
		return nil, nil
	}
	text, err := exec.CommandContext(ctx, save).Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", save, err)
	}
	var list []Block
	for _, table := range strings.Split(string(text), "\n*")[1:] {
		name, rules, _ := strings.Cut(table, "\n")
		for _, c := range crossings {
			if name != "nat" && c.has(f.family) && legacyDrops(rules, c) {
				title := fmt.Sprintf("%s %s %s", f.command, name, c.legacyChain)
				insert := fmt.Sprintf("%s -t %s -I %s %%s -j ACCEPT", f.command, name, c.legacyChain)
				list = append(list, c.block(title, insert, c.legacy))
			}
		}
	}
	return list, nil
}

// legacyRule matches a rule that has a target, as iptables-save(8) prints it: chain,
// conditions, j or g, target. legacyComment is a condition that always holds.
var (
	legacyRule    = regexp.MustCompile(`(?m)^-A (\S+) ((?:[^"\n]|"(?:\\.|[^"\\])*")*?)-([jg]) (\S+)`)
	legacyComment = regexp.MustCompile(`-m comment --comment ("(?:\\.|[^"\\])*"|\S+) `)
)

// legacyDrops reports whether the rules of a table drop a crossing by the policy or
// by a rule without conditions. A rule that names the crossing and has another
// target is taken to accept all of its packets.
func legacyDrops(rules string, c crossing) bool {
	chains := map[string][][]string{}
	for _, rule := range legacyRule.FindAllStringSubmatch(rules, -1) {
		chain, conditions, target := rule[1], legacyComment.ReplaceAllString(rule[2], ""), rule[4]
		named := slices.ContainsFunc(c.legacyNames, func(name string) bool { return strings.Contains(conditions, name+" ") })
		switch {
		case conditions == "":
			chains[chain] = append(chains[chain], rule[3:])
		case named && !slices.Contains([]string{"DROP", "REJECT", "RETURN", "LOG"}, target):
			return false
		}
	}
	switch followed(chains, c.legacyChain, maxJumps) {
	case "ACCEPT":
		return false
	case "":
		return strings.Contains("\n"+rules, "\n:"+c.legacyChain+" DROP ")
	}
	return true
}

// followed returns the target that ends a packet's way through a chain by rules
// without conditions: ACCEPT, DROP or REJECT; "" if none does.
func followed(chains map[string][][]string, chain string, jumps int) string {
	for _, rule := range chains[chain] {
		switch kind, target := rule[0], rule[1]; {
		case target == "RETURN":
			return ""
		case target == "ACCEPT" || target == "DROP" || target == "REJECT":
			return target
		case jumps > 0:
			if end := followed(chains, target, jumps-1); end != "" || kind == "g" {
				return end
			}
		}
	}
	return ""
}
