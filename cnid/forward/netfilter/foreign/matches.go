// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"math"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
)

// match reads a condition of iptables-nft.
func (r *reader) match(e *expr.Match) {
	switch info := e.Info.(type) {
	case *xt.ConntrackMtinfo3:
		if info.MatchFlags&^uint16(xt.ConntrackStateAlias) == uint16(xt.ConntrackState) {
			r.add(states(), func(value []byte) bool {
				return inStates(value, stateMask(info)) == (info.InvertFlags&uint16(xt.ConntrackState) == 0)
			})
			return
		}
	case *xt.Udp:
		r.add(r.port(), func(value []byte) bool {
			port := binaryutil.BigEndian.Uint16(value)
			return (port >= info.DstPorts[0] && port <= info.DstPorts[1]) == (info.InvFlags&xt.UdpInvDestPorts == 0)
		})
		r.unread = r.unread || info.SrcPorts != [2]uint16{0, math.MaxUint16}
		return
	case *xt.Unknown:
		switch {
		case e.Name == "devgroup" && len(*info) >= 20:
			r.devgroup(*info)
			return
		case e.Name == "multiport" && e.Rev == 1 && len(*info) >= 48:
			r.multiport(*info)
			return
		}
	}
	r.unread = true
}

// stateMask returns states as nf_tables numbers them. The number of UNTRACKED is larger in
// linux/netfilter/xt_conntrack.h, where its place has SNAT.
func stateMask(info *xt.ConntrackMtinfo3) uint32 {
	const xtUntracked = 1 << 8
	mask := uint32(info.StateMask) &^ untracked
	if info.StateMask&xtUntracked != 0 {
		mask |= untracked
	}
	return mask
}

// devgroup reads struct xt_devgroup_info of linux/netfilter/xt_devgroup.h: flags, then group and
// mask of the source and of the destination.
func (r *reader) devgroup(info []byte) {
	word := func(i int) uint32 { return binaryutil.NativeEndian.Uint32(info[4*i:]) }
	for i, key := range []expr.MetaKey{expr.MetaKeyIIFGROUP, expr.MetaKeyOIFGROUP} {
		matches, inverts := word(0)>>(2*i)&1 != 0, word(0)>>(2*i+1)&1 != 0
		if matches || inverts {
			r.add(r.meta(key), func(value []byte) bool {
				return inGroup(value, word(1+2*i), word(2+2*i)) != inverts
			})
		}
	}
}

// multiport reads struct xt_multiport_v1 of linux/netfilter/xt_multiport.h: which ports, their
// number, 15 ports, 15 marks of those that begin a range, and whether the condition is negated.
func (r *reader) multiport(info []byte) {
	const destination = 1
	if info[0] != destination {
		r.unread = true
		return
	}
	r.add(r.port(), func(value []byte) bool {
		port, has := binaryutil.BigEndian.Uint16(value), false
		for i := 0; i < min(int(info[1]), 15); i++ {
			at := func(i int) uint16 { return binaryutil.NativeEndian.Uint16(info[2+2*i:]) }
			first, last := at(i), at(i)
			if info[32+i] != 0 && i < 14 {
				i++
				last = at(i)
			}
			has = has || port >= first && port <= last
		}
		return has != (info[47] != 0)
	})
}
