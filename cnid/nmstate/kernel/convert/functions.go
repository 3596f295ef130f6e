// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"encoding/binary"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// VFs returns the virtual functions of a device by their numbers.
func VFs(l Link) []document.VF {
	list := []document.VF{}
	for kind, info := range l.Get(unix.IFLA_VFINFO_LIST).All() {
		if kind == nl.IFLA_VF_INFO {
			list = append(list, showVF(info))
		}
	}
	slices.SortFunc(list, func(a, b document.VF) int { return a.ID - b.ID })
	return list
}

// wordsOf returns the numbers of 32 bits of an attribute of a virtual function. The first
// one is always the function's.
func wordsOf(info attributes, kind uint16, count int) ([]uint32, bool) {
	const width = 4
	content := info.Get(kind)
	if len(content) < count*width {
		return nil, false
	}
	list := make([]uint32, count)
	for n := range list {
		list[n] = binary.NativeEndian.Uint32(content[n*width:])
	}
	return list, true
}

func showVF(info attributes) document.VF {
	var vf document.VF
	// Numbers at the ends of structs ifla_vf_* of include/uapi/linux/if_link.h.
	const unset = 1<<32 - 1
	if mac := info.Get(nl.IFLA_VF_MAC); len(mac) >= 10 {
		vf.ID, vf.MACAddress = int(binary.NativeEndian.Uint32(mac)), strings.ToUpper(net.HardwareAddr(mac[4:10]).String())
	}
	if w, ok := wordsOf(info, nl.IFLA_VF_VLAN, 3); ok {
		vf.VLANID, vf.QoS = new(int(w[1])), new(int(w[2]))
	}
	if w, ok := wordsOf(info, nl.IFLA_VF_SPOOFCHK, 2); ok && w[1] != unset {
		vf.SpoofCheck = new(w[1] != 0)
	}
	if w, ok := wordsOf(info, nl.IFLA_VF_TRUST, 2); ok && w[1] != unset {
		vf.Trust = new(w[1] != 0)
	}
	if w, ok := wordsOf(info, nl.IFLA_VF_RATE, 3); ok {
		vf.MinTxRate, vf.MaxTxRate = new(int(w[1])), new(int(w[2]))
	}
	vf.VLANProto = vfProtocol(info)
	return vf
}

// vfProtocol is the protocol of the VLAN of a virtual function.
func vfProtocol(info attributes) string {
	const entry, at = 1, 12 // IFLA_VF_VLAN_INFO, and its vlan_proto
	if list := info.Get(nl.IFLA_VF_VLAN_LIST).Get(entry); len(list) >= at+2 {
		return protocolName(binary.BigEndian.Uint16(list[at:]))
	}
	return ""
}

// Different returns the wanted settings that a function lacks. Drivers refuse settings that they
// do not support, even with the values that they show. Settings of one request stay together.
func Different(now, want document.VF) document.VF {
	if strings.EqualFold(want.MACAddress, now.MACAddress) {
		want.MACAddress = ""
	}
	if same(want.VLANID, now.VLANID) && same(want.QoS, now.QoS) &&
		(want.VLANProto == "" || want.VLANProto == now.VLANProto) {
		want.VLANID, want.QoS, want.VLANProto = nil, nil, ""
	} else {
		want.VLANID, want.QoS = cmp.Or(want.VLANID, now.VLANID), cmp.Or(want.QoS, now.QoS)
		want.VLANProto = cmp.Or(want.VLANProto, now.VLANProto)
	}
	if same(want.MinTxRate, now.MinTxRate) && same(want.MaxTxRate, now.MaxTxRate) {
		want.MinTxRate, want.MaxTxRate = nil, nil
	} else {
		want.MinTxRate, want.MaxTxRate = cmp.Or(want.MinTxRate, now.MinTxRate), cmp.Or(want.MaxTxRate, now.MaxTxRate)
	}
	if same(want.SpoofCheck, now.SpoofCheck) {
		want.SpoofCheck = nil
	}
	if same(want.Trust, now.Trust) {
		want.Trust = nil
	}
	return want
}

// same reports whether a value is there, or none is wanted.
func same[T comparable](want, now *T) bool { return want == nil || now != nil && *want == *now }
