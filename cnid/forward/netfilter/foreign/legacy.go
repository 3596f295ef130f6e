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

	"github.com/google/nftables/expr"
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

// legacyVerdicts are the targets that are no chains. LOG and others are chains that do not exist.
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
		r := rule{always: conditions == "", means: t.legacyMeaning(conditions), verdict: expr.VerdictJump, target: match[4]}
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

// legacyMeaning returns the packets that the conditions of a rule mean. Rules by the names of
// pods' devices are of earlier releases, or of the administrator.
func (t Traffic) legacyMeaning(conditions string) ours {
	texts := map[string]ours{
		fmt.Sprintf("-i %s+ ", t.PodDevices): fromPods, fmt.Sprintf("-o %s+ ", t.PodDevices): toPods | replies,
		fmt.Sprintf("-o %s ", t.NodeDevice): fromPods, fmt.Sprintf("-i %s ", t.NodeDevice): toPods | replies,
		fmt.Sprintf("--src-group %#x ", t.PodGroup): fromPods, fmt.Sprintf("--dst-group %#x ", t.PodGroup): toPods | replies,
		"--ctstate ": replies, "--state ": replies, fmt.Sprintf("--dport %d ", t.TunnelPort): tunnel,
	}
	for _, shadow := range t.Shadows {
		texts[fmt.Sprintf("-s %s ", shadow)], texts[fmt.Sprintf("-d %s ", shadow)] = fromPods, toPods|replies
	}
	means, understood := all, false
	for text, of := range texts {
		if strings.Contains(conditions, text) {
			means, understood = means&of, true
		}
	}
	if !understood {
		return 0
	}
	return means
}
