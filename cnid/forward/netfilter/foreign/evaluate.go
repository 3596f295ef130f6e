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

// sample is one of Alioth's packets, as far as its fields are known.
type sample struct {
	family byte
	// in and out are the devices; the zero value where the packet has none.
	in, out device
	// source and destination are the zero value where any address is possible.
	source, destination netip.Addr
	// udpPort is the destination port of a datagram; 0 where any protocol is
	// possible.
	udpPort uint16
	// state is the ct state, as its bit.
	state uint32
}

// Bits of a packet's state, from linux/netfilter/nf_conntrack_common.h.
const (
	ctEstablished = 1 << 1
	ctNew         = 1 << 3
	ctUntracked   = 1 << 6
)

// chain is a chain of another program.
type chain struct {
	// hook is the hook of a base chain that filters, otherwise nil.
	hook *nftables.ChainHook
	// drops reports whether the policy is drop.
	drops bool
	rules [][]expr.Any
}

// table has the chains of one table by name.
type table map[string]chain

// maxJumps is the kernel's limit of nested jumps (NFT_JUMP_STACK_SIZE).
const maxJumps = 16

// blocked reports whether a base chain certainly drops the packet.
func (t table) blocked(name string, p sample) bool {
	end := t.walk(name, p, true, 0)
	return end == expr.VerdictDrop || end == expr.VerdictContinue && t[name].drops
}

// walk returns accept or drop if the rules of a chain decide about the packet,
// otherwise continue. certain is false if it is not known whether the packet
// gets to the chain.
func (t table) walk(name string, p sample, certain bool, depth int) expr.VerdictKind {
	for _, r := range t[name].rules {
		m := p.match(r)
		if m.never {
			continue
		}
		sure := certain && !m.uncertain
		kind, target := verdict(r)
		switch kind {
		case expr.VerdictReturn:
			if sure {
				return expr.VerdictContinue
			}
		case expr.VerdictJump, expr.VerdictGoto:
			if depth == maxJumps {
				continue
			}
			end := t.walk(target, p, sure, depth+1)
			if end != expr.VerdictContinue || kind == expr.VerdictGoto && sure {
				return end
			}
		default:
			if p.isDecided(kind, m, sure) {
				return kind
			}
		}
	}
	return expr.VerdictContinue
}

// isDecided reports whether a rule's accept or drop counts for the packet. An
// uncertain accept counts if the rule names a known field, or if the packet is a
// reply: such a rule is meant for these packets.
func (p sample) isDecided(kind expr.VerdictKind, m match, sure bool) bool {
	switch kind {
	case expr.VerdictDrop:
		return sure
	case expr.VerdictAccept:
		return sure || m.named || p.state&ctEstablished != 0
	}
	return false
}

// verdict returns a rule's verdict with the chain of a jump or goto; continue for
// a rule without one.
func verdict(r []expr.Any) (expr.VerdictKind, string) {
	for _, e := range r {
		switch e := e.(type) {
		case *expr.Verdict:
			return e.Kind, e.Chain
		case *expr.Reject:
			return expr.VerdictDrop, ""
		case *expr.Target: // of iptables-nft
			if e.Name == "REJECT" {
				return expr.VerdictDrop, ""
			}
		}
	}
	return expr.VerdictContinue, ""
}

// match is how a packet fits the conditions of a rule.
type match struct {
	// never: a condition excludes the packet. uncertain: a condition needs a field
	// that is not known. named: a condition names a known field.
	never, uncertain, named bool
}

func (p sample) match(r []expr.Any) match {
	var m match
	registers := map[uint32][]byte{} // their known values
	for _, e := range r {
		if p.load(registers, e) {
			continue
		}
		switch e := e.(type) {
		case *expr.Cmp:
			value := registers[e.Register]
			if len(value) < len(e.Data) || e.Op != expr.CmpOpEq && e.Op != expr.CmpOpNeq {
				m.uncertain = true
				continue
			}
			m.named = true
			m.never = m.never || bytes.HasPrefix(value, e.Data) != (e.Op == expr.CmpOpEq)
		case *expr.Lookup:
			m.named = m.named || registers[e.SourceRegister] != nil
			m.uncertain = true
		case *expr.Match:
			m.uncertain = m.uncertain || e.Name != "comment"
			m.named = m.named || e.Name == "devgroup" // of iptables-nft; its group is not read
		case *expr.Verdict, *expr.Reject, *expr.Target, *expr.Counter, *expr.Log, *expr.Notrack, *expr.Objref, *expr.Immediate:
			// no conditions
		default:
			m.uncertain = true
		}
	}
	return m
}

// load puts what an expression reads of the packet into its register. It reports
// whether the expression is one that loads.
func (p sample) load(registers map[uint32][]byte, e expr.Any) bool {
	switch e := e.(type) {
	case *expr.Meta:
		registers[e.Register] = p.meta(e.Key)
	case *expr.Ct:
		registers[e.Register] = nil
		if e.Key == expr.CtKeySTATE {
			registers[e.Register] = binaryutil.NativeEndian.PutUint32(p.state)
		}
	case *expr.Payload:
		registers[e.DestRegister] = p.payload(e)
	case *expr.Bitwise:
		registers[e.DestRegister] = masked(registers[e.SourceRegister], e)
	default:
		return false
	}
	return true
}

// meta returns the value of a key, nil if it is not known.
func (p sample) meta(key expr.MetaKey) []byte {
	switch key {
	case expr.MetaKeyIIFNAME:
		return padded(p.in.name)
	case expr.MetaKeyOIFNAME:
		return padded(p.out.name)
	case expr.MetaKeyIIFGROUP:
		return p.in.inGroup()
	case expr.MetaKeyOIFGROUP:
		return p.out.inGroup()
	case expr.MetaKeyNFPROTO:
		return []byte{p.family}
	case expr.MetaKeyL4PROTO:
		if p.udpPort != 0 {
			return []byte{unix.IPPROTO_UDP}
		}
	}
	return nil
}

// payload returns the loaded part of an address, the protocol or the destination
// port: RFC 791 section 3.1, RFC 8200 section 3, RFC 768. It returns nil if the
// field is not known.
func (p sample) payload(e *expr.Payload) []byte {
	source, destination := uint32(12), uint32(16)
	if p.family == unix.NFPROTO_IPV6 {
		source, destination = 8, 24
	}
	var field []byte
	switch {
	case e.Base == expr.PayloadBaseTransportHeader && e.Offset == 2 && p.udpPort != 0:
		field = binaryutil.BigEndian.PutUint16(p.udpPort)
	case e.Base != expr.PayloadBaseNetworkHeader:
	case e.Offset == source:
		field = p.source.AsSlice()
	case e.Offset == destination:
		field = p.destination.AsSlice()
	case e.Offset == 9 && p.family == unix.NFPROTO_IPV4:
		field = p.meta(expr.MetaKeyL4PROTO)
	}
	if len(field) < int(e.Len) {
		return nil
	}
	return field[:e.Len]
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

// device is a device of the node.
type device struct {
	name  string
	group uint32
}

// inGroup returns the value of a device's group in a register, nil without a device.
func (d device) inGroup() []byte {
	if d.name == "" {
		return nil
	}
	return binaryutil.NativeEndian.PutUint32(d.group)
}

// padded returns a device's name as the kernel compares it.
func padded(name string) []byte {
	return append([]byte(name), make([]byte, unix.IFNAMSIZ-len(name))...)
}
