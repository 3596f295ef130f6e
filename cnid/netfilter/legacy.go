// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Socket options of the legacy tables, from
// linux/netfilter_ipv4/ip_tables.h; those of IPv6 have the same numbers.
const (
	optionInfo    = 64 // IPT_SO_GET_INFO
	optionEntries = 65 // IPT_SO_GET_ENTRIES
)

// legacyFamily is how one family's tables of legacy iptables are read and laid
// out: struct ipt_entry and struct ip6t_entry.
type legacyFamily struct {
	family nftables.TableFamily
	// names is the file that lists the tables which are in use. To ask for one
	// that is not would make it.
	names         string
	domain, level int
	command       string
	// address is the length of one; proto, flags and inverse are offsets of the
	// fields of struct ipt_ip, next that of target_offset and next_offset, and
	// matches the length of an entry without matches and target.
	address, proto, flags, inverse, next, matches int
}

var legacyFamilies = []legacyFamily{
	{
		family: nftables.TableFamilyIPv4, names: "/proc/thread-self/net/ip_tables_names", domain: unix.AF_INET, level: unix.SOL_IP, command: "iptables-legacy",
		address: 4, proto: 80, flags: 82, inverse: 83, next: 88, matches: 112,
	},
	{
		family: nftables.TableFamilyIPv6, names: "/proc/thread-self/net/ip6_tables_names", domain: unix.AF_INET6, level: unix.SOL_IPV6, command: "ip6tables-legacy",
		address: 16, proto: 128, flags: 131, inverse: 132, next: 140, matches: 168,
	},
}

// Bits of the fields flags and invflags of struct ipt_ip.
const (
	legacyFragment = 1 << 0
	legacyGoto     = 1 << 1

	inverseIn, inverseOut      = 1 << 0, 1 << 1
	inverseSource, inverseDest = 1 << 3, 1 << 4
	inverseProto               = 1 << 6

	// Verdicts, as standard targets have them: -verdict - 1.
	legacyAccept int32 = -2 // NF_ACCEPT
	legacyReturn int32 = -5 // XT_RETURN
)

// legacyInfo is struct ipt_getinfo.
type legacyInfo struct {
	Name       [32]byte
	Hooks      uint32
	Entries    [5]uint32
	Underflows [5]uint32
	Count      uint32
	Size       uint32
}

// legacyTables reads what was made with legacy iptables and may filter, in terms
// of nf_tables.
func legacyTables() ([]foreignTable, error) {
	var list []foreignTable
	for _, f := range legacyFamilies {
		text, err := os.ReadFile(f.names)
		if errors.Is(err, os.ErrNotExist) {
			continue // the kernel has none of them
		}
		if err != nil {
			return nil, fmt.Errorf("list tables of %s: %w", f.command, err)
		}
		for _, name := range strings.Fields(string(text)) {
			if name == "nat" || name == "raw" {
				continue // no hook of theirs is one of ours
			}
			table, err := f.read(name)
			if err != nil {
				return nil, fmt.Errorf("read table %s of %s: %w", name, f.command, err)
			}
			list = append(list, table)
		}
	}
	return list, nil
}

func (f legacyFamily) read(name string) (foreignTable, error) {
	fd, err := unix.Socket(f.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, fmt.Errorf("open raw socket: %w", err)
	}
	defer unix.Close(fd)
	var info legacyInfo
	copy(info.Name[:], name)
	if err := getOption(fd, f.level, optionInfo, unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
		return nil, err
	}
	const header = 40 // struct ipt_get_entries: name, size, padding
	buffer := make([]byte, header+info.Size)
	copy(buffer, name)
	binary.NativeEndian.PutUint32(buffer[32:], info.Size)
	if err := getOption(fd, f.level, optionEntries, unsafe.Pointer(&buffer[0]), uintptr(len(buffer))); err != nil {
		return nil, err
	}
	return f.translate(name, info, buffer[header:])
}

// getOption reads a socket option that is larger than a number. A table that
// changed its size meanwhile is an error; the next look will see it.
func getOption(fd, level, option int, to unsafe.Pointer, size uintptr) error {
	length := uint32(size)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option), uintptr(to), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// translate makes chains out of the entries, which follow each other: those that
// a hook begins with, and those that others jump to, which are named after their
// offset.
func (f legacyFamily) translate(name string, info legacyInfo, entries []byte) (foreignTable, error) {
	table := &nftables.Table{Name: name, Family: f.family}
	t := foreignTable{}
	for at, hook := range map[int]*nftables.ChainHook{1: nftables.ChainHookInput, 2: nftables.ChainHookForward} {
		if info.Hooks&(1<<at) == 0 {
			continue
		}
		chain := &nftables.Chain{Name: map[int]string{1: "INPUT", 2: "FORWARD"}[at], Table: table, Hooknum: hook, Type: nftables.ChainTypeFilter}
		rules, err := f.chain(t, entries, info.Entries[at])
		if err != nil {
			return nil, err
		}
		t[chain.Name] = foreignChain{Chain: chain, rules: rules, command: f.command}
	}
	return t, nil
}

// chain reads the entries from an offset up to the one that always matches and
// ends the chain, and with them the chains that they jump to.
func (f legacyFamily) chain(t foreignTable, entries []byte, start uint32) ([]*nftables.Rule, error) {
	var rules []*nftables.Rule
	for at := start; ; {
		if int(at)+f.matches > len(entries) {
			return nil, errors.New("an entry is cut short")
		}
		entry := entries[at:]
		targetAt, next := binary.NativeEndian.Uint16(entry[f.next:]), binary.NativeEndian.Uint16(entry[f.next+2:])
		if int(targetAt)+32 > int(next) || int(next) > len(entry) || int(targetAt) < f.matches {
			return nil, errors.New("an entry has no target")
		}
		conditions := f.conditions(entry[:targetAt])
		final, err := f.target(t, entries, at+uint32(next), entry[targetAt:next], entry[f.flags]&legacyGoto != 0)
		if err != nil {
			return nil, err
		}
		if final == nil { // the name of the next chain, or the end
			return rules, nil
		}
		rules = append(rules, &nftables.Rule{Exprs: append(conditions, final...)})
		at += uint32(next)
		if int(at) == len(entries) {
			return rules, nil
		}
	}
}

// target returns what an entry does with a packet; nil for an entry that only
// separates chains.
func (f legacyFamily) target(t foreignTable, entries []byte, next uint32, target []byte, goes bool) (rule, error) {
	name := cString(target[2:31])
	switch {
	case name == "ERROR":
		return nil, nil
	case name != "":
		return rule{&expr.Target{Name: name}}, nil
	case len(target) < 36:
		return nil, errors.New("a verdict is cut short")
	}
	value := int32(binary.NativeEndian.Uint32(target[32:]))
	switch {
	case value == legacyReturn:
		return verdict(expr.VerdictReturn), nil
	case value == legacyAccept:
		return verdict(expr.VerdictAccept), nil
	case value < 0:
		return verdict(expr.VerdictDrop), nil // queueing counts as no way through
	case uint32(value) == next:
		return verdict(expr.VerdictContinue), nil
	}
	below := fmt.Sprintf("at %d", value)
	if _, known := t[below]; !known {
		t[below] = foreignChain{Chain: &nftables.Chain{Name: below}} // no chain jumps to itself
		rules, err := f.chain(t, entries, uint32(value))
		if err != nil {
			return nil, err
		}
		t[below] = foreignChain{Chain: &nftables.Chain{Name: below}, rules: rules}
	}
	kind := expr.VerdictJump
	if goes {
		kind = expr.VerdictGoto
	}
	return rule{&expr.Verdict{Kind: kind, Chain: below}}, nil
}

// conditions translates what an entry asks for: addresses, devices and protocol,
// and by their names the matches.
func (f legacyFamily) conditions(entry []byte) rule {
	inverse := entry[f.inverse]
	devices := 4 * f.address
	list := when(
		f.addressIs(source, entry, inverse&inverseSource != 0),
		f.addressIs(destination, entry, inverse&inverseDest != 0),
		legacyDevice(expr.MetaKeyIIFNAME, entry[devices:], inverse&inverseIn != 0),
		legacyDevice(expr.MetaKeyOIFNAME, entry[devices+unix.IFNAMSIZ:], inverse&inverseOut != 0))
	if proto := binary.NativeEndian.Uint16(entry[f.proto:]); proto != 0 {
		list = append(list, inverted(rule{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{byte(proto)}},
		}, inverse&inverseProto != 0)...)
	}
	if entry[f.flags]&legacyFragment != 0 {
		list = append(list, &expr.Match{Name: "fragment"})
	}
	for matches := entry[f.matches:]; len(matches) >= 32; {
		list = append(list, &expr.Match{Name: cString(matches[2:31])})
		size := int(binary.NativeEndian.Uint16(matches))
		if size < 32 || size > len(matches) {
			break
		}
		matches = matches[size:]
	}
	return list
}

// addressIs reads source and destination, which are followed by their masks.
func (f legacyFamily) addressIs(of side, entry []byte, not bool) rule {
	at := int(of) * f.address
	value, mask := entry[at:at+f.address], entry[at+2*f.address:at+3*f.address]
	if bytes.Count(mask, []byte{0}) == len(mask) && !not {
		return nil
	}
	size := uint32(f.address)
	return inverted(rule{
		load(of, byte(f.family)),
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: slices.Clone(mask), Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: slices.Clone(value)},
	}, not)
}

// legacyDevice reads a name, two of which are followed by their masks: a mask
// without the final zero means that the name only begins so.
func legacyDevice(key expr.MetaKey, at []byte, not bool) rule {
	name, mask := at[:unix.IFNAMSIZ], at[2*unix.IFNAMSIZ:3*unix.IFNAMSIZ]
	length := bytes.IndexByte(mask, 0)
	if length < 0 {
		length = len(mask)
	}
	if length == 0 {
		return nil
	}
	return inverted(device(key, slices.Clone(name[:length])), not)
}

func inverted(condition rule, yes bool) rule {
	if yes {
		return not(condition)
	}
	return condition
}

func cString(text []byte) string {
	text, _, _ = bytes.Cut(text, []byte{0})
	return string(text)
}
