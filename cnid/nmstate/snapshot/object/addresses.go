// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/binary"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Origins of addresses that the kernel makes by itself (IFAPROT_KERNEL_* of
// include/uapi/linux/if_addr.h).
const (
	AddressOrigin = 11 // IFA_PROTO
	originFirst   = 1
	originLast    = 3
	OriginLease   = unix.RTPROT_DHCP // of the engine's own clients
)

// PrefixOf returns an address with the length of its prefix.
func PrefixOf(m Message) netip.Prefix {
	a := Addresses().Attributes(m)
	ip := a.Address(unix.IFA_LOCAL)
	if !ip.IsValid() {
		ip = a.Address(unix.IFA_ADDRESS)
	}
	return netip.PrefixFrom(ip, int(m[1]))
}

// IsAutomatic reports whether the kernel made an address by itself.
func IsAutomatic(m Message) bool {
	origin := Addresses().Attributes(m).Value(AddressOrigin)
	return origin >= originFirst && origin <= originLast
}

// infinite is a lifetime without an end.
const infinite = 1<<32 - 1

// Elapse shortens a lifetime in seconds, unless it is infinite.
func Elapse(lifetime []byte, age time.Duration) {
	left, gone := binary.NativeEndian.Uint32(lifetime), InSeconds(age)
	if left != infinite {
		binary.NativeEndian.PutUint32(lifetime, max(left, gone)-gone)
	}
}

// prolong is the inverse of elapse.
func prolong(lifetime []byte, by time.Duration) {
	left, more := binary.NativeEndian.Uint32(lifetime), InSeconds(by)
	if left != infinite {
		binary.NativeEndian.PutUint32(lifetime, left+min(more, infinite-1-left))
	}
}

// InSeconds returns a duration in whole seconds, 0 for a negative one.
func InSeconds(d time.Duration) uint32 { return uint32(max(d, 0) / time.Second) }

func flagsOfAddress(m Message) uint32 {
	if len(m) < HeaderOfAddress {
		return 0
	}
	if flags, ok := Addresses().Attributes(m).Number(unix.IFA_FLAGS); ok {
		return flags
	}
	return uint32(m[2])
}

// PlaceOfAddress tells addresses from others: by device, and by prefix.
func PlaceOfAddress(m Message) string { return string(m[4:HeaderOfAddress]) + PrefixOf(m).String() }

// ProlongAddress gives an address the lifetimes that end later by a time.
func ProlongAddress(m Message, by time.Duration) {
	if left := Addresses().Attributes(m).Get(unix.IFA_CACHEINFO); len(left) >= 8 {
		prolong(left[:4], by)
		prolong(left[4:8], by)
	}
}

// IsLasting reports whether an address is permanent. The kernel makes temporary addresses anew
// (RFC 8981).
func IsLasting(m Message) bool {
	return len(m) > 0 && (m[0] == unix.AF_INET || flagsOfAddress(m)&unix.IFA_F_TEMPORARY == 0)
}
