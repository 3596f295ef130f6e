// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bytes"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// sample is a packet of ours as far as it is known: what a rule asks for beyond
// that is uncertain.
type sample struct {
	family byte
	// in and out are the devices; "" where the packet has none.
	in, out string
	// source and destination; the zero value for what may be any.
	source, destination netip.Addr
	// protocol and port, the destination's; 0 for what may be any.
	protocol byte
	port     uint16
	// state is the ct state, as its bit.
	state uint32
}

// Bits of a packet's state, from linux/netfilter/nf_conntrack_common.h.
const (
	ctEstablished = 1 << 1
	ctNew         = 1 << 3
)

// rule is a rule of somebody else: how a packet fits its conditions, and what it
// does with one that fits, and where to.
type rule interface {
	match(p sample) match
	verdict() (expr.VerdictKind, string)
}

// chain is a chain of somebody else.
type chain struct {
	// title names it for people, name within its table.
	title, name string
	family      nftables.TableFamily
	// hook is where it filters; nil for a chain that others jump to.
	hook *nftables.ChainHook
	// drops reports whether it drops what no rule decides.
	drops bool
	rules []rule
	// command is how people change a chain of legacy iptables, in table; "" for
	// one of nf_tables.
	command, table string
}

// table are the chains of one table, by name.
type table map[string]chain

// ending is what a packet meets in a chain.
type ending int

const (
	// passesOn: no rule decides.
	passesOn ending = iota
	accepted
	dropped
)

// maxJumps is how deep the kernel follows jumps (NFT_JUMP_STACK_SIZE).
const maxJumps = 16

// walk says what a packet meets in a chain. certain is false below a jump that
// may not be taken.
func (t table) walk(chain string, p sample, certain bool, depth int) ending {
	for _, r := range t[chain].rules {
		match := r.match(p)
		if match.never {
			continue
		}
		match.uncertain = match.uncertain || !certain
		kind, target := r.verdict()
		switch kind {
		case expr.VerdictReturn:
			if !match.uncertain {
				return passesOn
			}
		case expr.VerdictJump, expr.VerdictGoto:
			if depth == maxJumps {
				continue
			}
			end := t.walk(target, p, !match.uncertain, depth+1)
			if end != passesOn || kind == expr.VerdictGoto && !match.uncertain {
				return end
			}
		default:
			if end := match.ends(kind, p); end != passesOn {
				return end
			}
		}
	}
	return passesOn
}

// ends reports whether a verdict ends the packet's way. A drop counts only if the
// packet meets it for certain. An accept that asks for more than is known counts
// if it names something of the packet, or the packet answers: whoever wrote it
// meant packets like this one.
func (m match) ends(kind expr.VerdictKind, p sample) ending {
	switch {
	case kind == expr.VerdictDrop && !m.uncertain:
		return dropped
	case kind == expr.VerdictAccept && (!m.uncertain || m.named || p.state&ctEstablished != 0):
		return accepted
	}
	return passesOn
}

// drops reports whether a base chain drops the packet for certain.
func (t table) drops(base chain, p sample) bool {
	end := t.walk(base.name, p, true, 0)
	return end == dropped || end == passesOn && base.drops
}

// nftRule is a rule of nf_tables.
type nftRule []expr.Any

// verdict is to continue for a rule that does nothing final.
func (r nftRule) verdict() (expr.VerdictKind, string) {
	for _, e := range r {
		switch e := e.(type) {
		case *expr.Verdict:
			return e.Kind, e.Chain
		case *expr.Reject:
			return expr.VerdictDrop, ""
		case *expr.Target: // of iptables
			if e.Name == "REJECT" {
				return expr.VerdictDrop, ""
			}
		}
	}
	return expr.VerdictContinue, ""
}

// match is how a packet fits a rule's conditions.
type match struct {
	// never: one of them excludes it. uncertain: one of them asks for what is
	// not known. named: one of them asks for what is known.
	never, uncertain, named bool
}

func (r nftRule) match(p sample) match {
	var m match
	registers := map[uint32][]byte{} // what is known of their values
	for _, e := range r {
		if p.load(e, registers) || harmless(e) {
			continue
		}
		cmp, ok := e.(*expr.Cmp)
		if !ok {
			// A set that is asked for something known was made for it.
			lookup, ok := e.(*expr.Lookup)
			m.named = m.named || ok && registers[lookup.SourceRegister] != nil
			m.uncertain = true
			continue
		}
		value := registers[cmp.Register]
		if len(value) < len(cmp.Data) {
			m.uncertain = true
			continue
		}
		m.named = true
		m.never = m.never || !holdsFor(cmp.Op, bytes.Compare(value[:len(cmp.Data)], cmp.Data))
	}
	return m
}

func holdsFor(op expr.CmpOp, order int) bool {
	switch op {
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
	}
	return order >= 0
}

// harmless expressions are no conditions.
func harmless(e expr.Any) bool {
	switch e := e.(type) {
	case *expr.Verdict, *expr.Counter, *expr.Log, *expr.Reject, *expr.Target, *expr.Notrack, *expr.Objref:
		return true
	case *expr.Match:
		return e.Name == "comment"
	}
	return false
}

// load follows an expression that puts a value into a register or changes one
// there, and reports whether it was such.
func (p sample) load(e expr.Any, registers map[uint32][]byte) bool {
	switch e := e.(type) {
	case *expr.Meta:
		if !e.SourceRegister {
			registers[e.Register] = p.meta(e.Key)
		}
	case *expr.Ct:
		if !e.SourceRegister {
			registers[e.Register] = nil
			if e.Key == expr.CtKeySTATE {
				registers[e.Register] = binaryutil.NativeEndian.PutUint32(p.state)
			}
		}
	case *expr.Payload:
		if e.OperationType == expr.PayloadLoad {
			registers[e.DestRegister] = p.payload(e)
		}
	case *expr.Immediate:
		registers[e.Register] = e.Data
	case *expr.Bitwise:
		registers[e.DestRegister] = masked(registers[e.SourceRegister], e)
	default:
		return false
	}
	return true
}

func (p sample) meta(key expr.MetaKey) []byte {
	switch key {
	case expr.MetaKeyIIFNAME:
		return wholeName(p.in)
	case expr.MetaKeyOIFNAME:
		return wholeName(p.out)
	case expr.MetaKeyNFPROTO:
		return []byte{p.family}
	case expr.MetaKeyL4PROTO:
		if p.protocol != 0 {
			return []byte{p.protocol}
		}
	}
	return nil
}

// payload returns addresses, protocol and destination port: RFC 791 section 3.1,
// RFC 8200 section 3, RFC 768.
func (p sample) payload(e *expr.Payload) []byte {
	var found []byte
	switch {
	case e.Base == expr.PayloadBaseTransportHeader:
		if e.Offset == 2 && e.Len == 2 && p.port != 0 {
			found = binaryutil.BigEndian.PutUint16(p.port)
		}
	case e.Base != expr.PayloadBaseNetworkHeader:
	case inField(e, 12, 8, p.family):
		found = p.source.AsSlice()
	case inField(e, 16, 24, p.family):
		found = p.destination.AsSlice()
	case p.family == unix.NFPROTO_IPV4 && e.Offset == 9 && e.Len == 1 && p.protocol != 0:
		found = []byte{p.protocol}
	}
	if uint32(len(found)) < e.Len {
		return nil
	}
	return found[:e.Len]
}

// inField reports whether the whole of an address, or its beginning, is loaded.
// The address begins at one of the two offsets, by its family.
func inField(e *expr.Payload, ip4, ip6 uint32, family byte) bool {
	if family == unix.NFPROTO_IPV4 {
		return e.Offset == ip4 && e.Len <= 4
	}
	return e.Offset == ip6 && e.Len <= 16
}

func masked(value []byte, e *expr.Bitwise) []byte {
	if len(value) < int(e.Len) || len(e.Mask) < int(e.Len) || len(e.Xor) < int(e.Len) {
		return nil
	}
	result := make([]byte, e.Len)
	for i := range result {
		result[i] = value[i]&e.Mask[i] ^ e.Xor[i]
	}
	return result
}

// wholeName is a device's name with its padding.
func wholeName(name string) []byte {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return padded
}
