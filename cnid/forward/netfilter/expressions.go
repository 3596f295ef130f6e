// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
)

// Conditions on connection tracking, from linux/netfilter/nf_conntrack_common.h
// by way of nft_ct's bit numbers.
const (
	ctInvalid     = 1 << 0
	ctEstablished = 1 << 1
	ctRelated     = 1 << 2
	ctNew         = 1 << 3

	statusRewritten = 1 << 5 // IPS_DST_NAT
)

// Directions of a packet in its connection, from
// linux/netfilter/nf_conntrack_tuple_common.h.
const (
	directionOriginal = 0
	directionReply    = 1
)

// side is the source or the destination of a packet.
type side int

const (
	source side = iota
	destination
)

// when joins conditions and an action into one rule.
func when(parts ...rule) rule { return slices.Concat(parts...) }

func verdict(kind expr.VerdictKind) rule { return rule{&expr.Verdict{Kind: kind}} }

func jump(chain string) rule { return rule{&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}} }

func drop(reason string) rule {
	return rule{
		&expr.Objref{Type: int(nftables.ObjTypeCounter), Name: reason},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}
}

func fromDevice(name string) rule { return device(expr.MetaKeyIIFNAME, wholeName(name)) }

// Astray holds for packets from a device that has no route to their source.
func Astray() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, FlagSADDR: true, FlagIIF: true, ResultOIF: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(0)},
	}
}

func toDevice(name string) rule { return device(expr.MetaKeyOIFNAME, wholeName(name)) }

// fromPods holds for packets that came by a device of the group of pods' host ends. Behind
// rawPrerouting, all such devices are of a kind that host ends have.
func fromPods(s ruleset.State) rule {
	return device(expr.MetaKeyIIFGROUP, binaryutil.NativeEndian.PutUint32(s.PodGroup))
}

// fromNowhere holds for packets of the node itself, where they have a device to go to. A
// comparison of groups, also one for inequality, does not hold for them.
func fromNowhere() rule { return device(expr.MetaKeyIIF, make([]byte, 4)) }

func toPods(s ruleset.State) rule {
	return device(expr.MetaKeyOIFGROUP, binaryutil.NativeEndian.PutUint32(s.PodGroup))
}

// metaIIFKind is NFT_META_IIFKIND of linux/netfilter/nf_tables.h, which the library lacks.
const metaIIFKind expr.MetaKey = 26

// ofKind holds for packets from virtual devices of a kind. It does not hold for packets from
// physical devices, because these have no kind.
func ofKind(kind string) rule { return device(metaIIFKind, wholeName(kind)) }

// device compares a whole property of a device.
func device(key expr.MetaKey, value []byte) rule {
	return rule{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: value},
	}
}

func wholeName(name string) []byte {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return padded
}

// not inverts a condition that ends in a comparison for equality.
func not(condition rule) rule {
	inverted := slices.Clone(condition)
	last := *inverted[len(inverted)-1].(*expr.Cmp)
	last.Op = expr.CmpOpNeq
	inverted[len(inverted)-1] = &last
	return inverted
}

// missingFamilies returns the families without a prefix in the list.
func missingFamilies(list []netip.Prefix) []byte {
	var missing []byte
	for _, family := range families() {
		if !slices.ContainsFunc(list, func(p netip.Prefix) bool { return ipfamily.Of(p.Addr()).Number() == family }) {
			missing = append(missing, family)
		}
	}
	return missing
}

func ofFamily(family byte) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
	}
}

// load puts an address of the packet into register 1. Offsets: RFC 791 section
// 3.1, RFC 8200 section 3.
func load(of side, family byte) expr.Any {
	offset, length := uint32(12), uint32(4)
	if family == unix.NFPROTO_IPV6 {
		offset, length = 8, 16
	}
	if of == destination {
		offset += length
	}
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length}
}

func inside(of side, prefix netip.Prefix) rule {
	size := prefix.Addr().BitLen() / 8
	mask := make([]byte, size)
	for bit := range prefix.Bits() {
		mask[bit/8] |= 0x80 >> (bit % 8)
	}
	return when(ofFamily(ipfamily.Of(prefix.Addr()).Number()), rule{
		load(of, ipfamily.Of(prefix.Addr()).Number()),
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(size), Mask: mask, Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: prefix.Addr().AsSlice()},
	})
}

// outside holds for packets of the prefix's family only.
func outside(of side, prefix netip.Prefix) rule { return not(inside(of, prefix)) }

func marked(s ruleset.State, mark uint32) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(s.MarkMask), Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(mark)},
	}
}

func answering() rule { return connection(expr.CtKeySTATE, ctEstablished|ctRelated) }

// replying holds for replies to the client that opened the connection, not for the
// client's own packets.
func replying() rule { return when(answering(), directed(directionReply)) }

func invalid() rule { return connection(expr.CtKeySTATE, ctInvalid) }

func opening() rule { return connection(expr.CtKeySTATE, ctNew) }

// rewritten holds for packets whose destination a rule on this node has
// replaced: it differs from the destination that a program has allowed.
func rewritten() rule {
	return when(connection(expr.CtKeySTATUS, statusRewritten), directed(directionOriginal))
}

// connection holds when any of the bits is set.
func connection(key expr.CtKey, bits uint32) rule {
	return rule{
		&expr.Ct{Key: key, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

func directed(direction byte) rule {
	return rule{
		&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{direction}},
	}
}
