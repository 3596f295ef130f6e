// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// legacyFamily is one family of legacy iptables.
type legacyFamily struct {
	family  nftables.TableFamily
	command string
	// names is the file that lists the tables which are in use.
	names string
}

var legacyFamilies = []legacyFamily{
	{nftables.TableFamilyIPv4, "iptables-legacy", "/proc/thread-self/net/ip_tables_names"},
	{nftables.TableFamilyIPv6, "ip6tables-legacy", "/proc/thread-self/net/ip6_tables_names"},
}

// legacyTables reads what was made with legacy iptables and may filter. Where its
// program is not installed, nothing is known.
func legacyTables(ctx context.Context) ([]table, error) {
	var list []table
	for _, f := range legacyFamilies {
		names, err := os.ReadFile(f.names)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("list tables of %s: %w", f.command, err)
		}
		if len(names) == 0 {
			continue // the program would load modules to find nothing
		}
		save, err := exec.LookPath(f.command + "-save")
		if err != nil {
			continue
		}
		text, err := exec.CommandContext(ctx, save).Output()
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", save, err)
		}
		list = append(list, f.parse(string(text))...)
	}
	return list, nil
}

// parse reads what iptables-save(8) prints: a line for each table, chain and
// rule.
func (f legacyFamily) parse(text string) []table {
	var list []table
	var name string
	t := table{}
	for line := range strings.Lines(text) {
		words := splitWords(line)
		switch {
		case len(words) == 0:
		case strings.HasPrefix(words[0], "*"):
			t, name = table{}, words[0][1:]
			list = append(list, t)
		case strings.HasPrefix(words[0], ":") && len(words) > 1:
			t[words[0][1:]] = f.chain(name, words[0][1:], words[1])
		case words[0] == "-A" && len(words) > 1:
			c := t[words[1]]
			c.rules = append(c.rules, parseRule(words[2:]))
			t[words[1]] = c
		}
	}
	return list
}

func (f legacyFamily) chain(table, name, policy string) chain {
	hooks := map[string]*nftables.ChainHook{"INPUT": nftables.ChainHookInput, "FORWARD": nftables.ChainHookForward}
	c := chain{
		title: fmt.Sprintf("%s %s %s", f.command, table, name), name: name, family: f.family,
		drops: policy == "DROP", command: f.command, table: table,
	}
	if table != "nat" {
		c.hook = hooks[name]
	}
	return c
}

// splitWords splits a line at spaces that are not between quotes.
func splitWords(line string) []string {
	quoted, last := false, rune(0)
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' && last != '\\' {
			quoted = !quoted
		}
		last = r
		return !quoted && (r == ' ' || r == '\n')
	})
}

// legacyRule is a rule of legacy iptables: its conditions, each an option with a
// value, and where packets go that fit.
type legacyRule struct {
	conditions []condition
	goes       bool
	target     string
}

type condition struct {
	option, value string
	not           bool
}

// parseRule reads the words of a rule. Options of a target end it.
func parseRule(words []string) legacyRule {
	var r legacyRule
	not := false
	for i := 0; i < len(words); i++ {
		var value string
		if i+1 < len(words) {
			value = words[i+1]
		}
		switch word := words[i]; word {
		case "!":
			not = true
			continue
		case "-j", "-g":
			r.target, r.goes = value, word == "-g"
			return r
		case "-i", "-o", "-s", "-d", "-p", "-m", "--comment":
			r.conditions = append(r.conditions, condition{word, value, not})
			i++
		default:
			r.conditions = append(r.conditions, condition{word, "", not})
		}
		not = false
	}
	return r
}

func (r legacyRule) verdict() (expr.VerdictKind, string) {
	switch {
	case r.target == "ACCEPT":
		return expr.VerdictAccept, ""
	case r.target == "DROP" || r.target == "REJECT":
		return expr.VerdictDrop, ""
	case r.target == "RETURN":
		return expr.VerdictReturn, ""
	case r.target == "":
		return expr.VerdictContinue, ""
	case r.goes:
		return expr.VerdictGoto, r.target
	}
	// A target that is no chain, such as LOG, has no rules: it continues.
	return expr.VerdictJump, r.target
}

func (r legacyRule) match(p sample) match {
	var m match
	for _, c := range r.conditions {
		if c.option == "--comment" || c.option == "-m" && c.value == "comment" {
			continue
		}
		fits, known := c.fits(p)
		if !known {
			m.uncertain = true
			continue
		}
		m.named = true
		m.never = m.never || fits == c.not
	}
	return m
}

// fits reports whether a packet is as a condition asks, if that is known.
func (c condition) fits(p sample) (fits, known bool) {
	switch c.option {
	case "-i":
		return isDevice(p.in, c.value), true
	case "-o":
		return isDevice(p.out, c.value), true
	case "-s":
		return inPrefix(p.source, c.value)
	case "-d":
		return inPrefix(p.destination, c.value)
	case "-p":
		return p.protocol == unix.IPPROTO_UDP && c.value == "udp", p.protocol != 0
	}
	return false, false
}

// isDevice reports whether a name is the one asked for, or begins so where a plus
// follows.
func isDevice(name, asked string) bool {
	if prefix, all := strings.CutSuffix(asked, "+"); all {
		return strings.HasPrefix(name, prefix)
	}
	return name == asked
}

func inPrefix(a netip.Addr, text string) (inside, known bool) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !a.IsValid() {
		return false, false
	}
	return prefix.Contains(a), true
}
