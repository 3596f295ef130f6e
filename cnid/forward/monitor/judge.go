// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"encoding/binary"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// linkJudge distinguishes damage from an attachment that was just made. The daemon reads
// the messages about the creation of a device late, when the record is complete already.
// Of such a device only the last message counts: the kernel had queued that one before
// the record was complete.
type linkJudge struct {
	// settled are the Seqs of records that were complete before the last whole batch
	// was read. No message about their creation is queued any more.
	settled map[uint64]bool
}

// concerned reports whether a batch of rtnetlink messages may report damage. The
// records of m are those that were complete before the batch was read.
func (j *linkJudge) concerned(messages []syscall.NetlinkMessage, m Managed, whole bool) bool {
	concerned := false
	last := map[int]syscall.NetlinkMessage{}
	for _, message := range messages {
		rec, ok := recordOfLink(message, m)
		if ok && !j.settled[rec.Seq] {
			last[rec.Device.HostIfindex] = message
			continue
		}
		concerned = concerned || routeConcerns(message, m)
	}
	for _, message := range last {
		concerned = concerned || routeConcerns(message, m)
	}
	j.settle(m, whole)
	return concerned
}

// settle notes the records whose creation has been read. A batch that is not whole
// settles none: the rest of the messages comes with the next one.
func (j *linkJudge) settle(m Managed, whole bool) {
	settled := map[uint64]bool{}
	for _, rec := range m.Records {
		if whole || j.settled[rec.Seq] {
			settled[rec.Seq] = true
		}
	}
	j.settled = settled
}

// recordOfLink returns the record of the device that a message about a link names.
func recordOfLink(m syscall.NetlinkMessage, o Managed) (journal.Record, bool) {
	if m.Header.Type != unix.RTM_NEWLINK && m.Header.Type != unix.RTM_DELLINK || len(m.Data) < unix.SizeofIfInfomsg {
		return journal.Record{}, false
	}
	return o.holds(int(binary.NativeEndian.Uint32(m.Data[4:]))) // ifi_index
}

// routeConcerns reports whether one message of rtnetlink may report damage.
func routeConcerns(m syscall.NetlinkMessage, o Managed) bool {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return linkConcerns(m, o)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if len(m.Data) < unix.SizeofIfAddrmsg {
			return false
		}
		index := int(binary.NativeEndian.Uint32(m.Data[4:])) // ifa_index
		const loopback = 1
		return index == loopback || slices.Contains(o.Devices, index)
	case unix.RTM_DELROUTE:
		return deletedRouteConcerns(m, o)
	case unix.RTM_DELQDISC, unix.RTM_DELTFILTER:
		const size = 20 // of struct tcmsg
		if len(m.Data) < size {
			return false
		}
		index := int(binary.NativeEndian.Uint32(m.Data[4:])) // tcm_ifindex
		_, held := o.holds(index)
		return held || slices.Contains(o.Devices, index)
	}
	return false
}

func linkConcerns(m syscall.NetlinkMessage, o Managed) bool {
	if len(m.Data) < unix.SizeofIfInfomsg {
		return false
	}
	if slices.Contains(o.Devices, int(binary.NativeEndian.Uint32(m.Data[4:]))) { // ifi_index
		return true
	}
	rec, held := recordOfLink(m, o)
	if !held {
		return false
	}
	flags := binary.NativeEndian.Uint32(m.Data[8:]) // ifi_flags
	mtu := attribute(m.Data, unix.SizeofIfInfomsg, unix.IFLA_MTU)
	name := bytes.TrimRight(attribute(m.Data, unix.SizeofIfInfomsg, unix.IFLA_IFNAME), "\x00")
	mac := attribute(m.Data, unix.SizeofIfInfomsg, unix.IFLA_ADDRESS)
	return m.Header.Type == unix.RTM_DELLINK || flags&unix.IFF_UP == 0 || string(name) != rec.HostIfName ||
		len(mtu) == 4 && int(binary.NativeEndian.Uint32(mtu)) != rec.MTU || !bytes.Equal(mac, state.VirtualMAC[:])
}
