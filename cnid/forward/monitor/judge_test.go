// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"encoding/binary"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

const index, mtu, name = 7, 1450, "al7"

// linkMessage is RTM_NEWLINK of the device of record, with these flags and this MTU.
func linkMessage(flags, size uint32) syscall.NetlinkMessage {
	data := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(data[4:], index)
	binary.NativeEndian.PutUint32(data[8:], flags)
	add := func(kind uint16, value []byte) {
		data = binary.NativeEndian.AppendUint16(data, uint16(4+len(value)))
		data = binary.NativeEndian.AppendUint16(data, kind)
		data = append(data, value...)
		for len(data)%4 != 0 {
			data = append(data, 0)
		}
	}
	add(unix.IFLA_IFNAME, append([]byte(name), 0))
	add(unix.IFLA_MTU, binary.NativeEndian.AppendUint32(nil, size))
	add(unix.IFLA_ADDRESS, state.VirtualMAC[:])
	return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWLINK}, Data: data}
}

func managedWith(seqs ...uint64) Managed {
	m := Managed{}
	for i, seq := range seqs {
		rec := journal.Record{Seq: seq}
		rec.HostIfName, rec.Device.HostIfindex, rec.MTU = name, index+i, mtu
		m.Records = append(m.Records, rec)
	}
	return m
}

func TestMonitorJudge_DeviceCreated_NoFault(t *testing.T) {
	down, up, small := linkMessage(0, mtu), linkMessage(unix.IFF_UP, mtu), linkMessage(unix.IFF_UP, 1280)
	type batch struct {
		messages []syscall.NetlinkMessage
		managed  Managed
		partial  bool
		want     bool
	}
	list := func(messages ...syscall.NetlinkMessage) []syscall.NetlinkMessage { return messages }
	for name, batches := range map[string][]batch{
		"the record is complete before its creation is read":   {{messages: list(down, small, up), managed: managedWith(1)}},
		"the record is not complete yet":                       {{messages: list(down, small), managed: managedWith()}},
		"the last message tells of harm":                       {{messages: list(up, down), managed: managedWith(1), want: true}},
		"down and up again after the creation was read":        {{managed: managedWith(1)}, {messages: list(down, up), managed: managedWith(1), want: true}},
		"the rest of the creation comes with the next batch":   {{managed: managedWith(1), partial: true}, {messages: list(down, up), managed: managedWith(1)}},
		"a batch that is not whole forgets no settled record":  {{managed: managedWith(1)}, {managed: managedWith(1), partial: true}, {messages: list(down, up), managed: managedWith(1), want: true}},
		"another record with the index of one that went":       {{managed: managedWith(1)}, {messages: list(down, up), managed: managedWith(2)}},
		"a record that was complete while others were created": {{managed: managedWith(1)}, {messages: list(down, up), managed: managedWith(1, 2), want: true}},
	} {
		t.Run(name, func(t *testing.T) {
			judge := linkJudge{}
			for i, b := range batches {
				if got := judge.concerned(b.messages, b.managed, !b.partial); got != b.want {
					t.Errorf("batch %d: concerned %t, want %t", i, got, b.want)
				}
			}
		})
	}
}
