// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// Tuple is the two ends of a packet. Fields that were not read are zero; protocols
// without ports have none.
type Tuple struct {
	Src, Dst     netip.Addr
	Sport, Dport uint16
}

// Event is one packet out of a sample that the programs report. Fields that had
// not been read when a packet was dropped are zero.
type Event struct {
	Time      time.Duration // of the monotonic clock
	Ifindex   int           // the device whose program decided about it
	VNI       uint32        // of a packet from the tunnel: as in its headers
	Reason    Reason
	Direction Direction
	// Came are the packet's ends as the program received it, Went those after
	// translation for a service or a shadow address; zero without translation.
	Came, Went Tuple
	// OuterSrc and OuterDst are the nodes' addresses of a packet that came
	// through the tunnel or goes there.
	OuterSrc, OuterDst netip.Addr
	Proto              uint8
	PacketMark         uint32
}

// ErrClosed is returned by EventReader.Read after Close.
var ErrClosed = ringbuf.ErrClosed

// EventReader receives events. Each goes to one reader only.
type EventReader struct {
	ring *ringbuf.Reader
}

// ReadDrops starts to receive dropped packets: per interface and reason at most one
// in a second.
func ReadDrops(in bpf.Maps) (*EventReader, error) { return readEvents(in[bpf.DropsMap]) }

// ReadFlows starts to receive forwarded packets, while TellFlows is in effect: one of
// each flow in ten seconds, and of the flows of an interface at most 100 at once and 20
// in a second. Packets from the tunnel count by their VPC.
func ReadFlows(in bpf.Maps) (*EventReader, error) { return readEvents(in[bpf.FlowsMap]) }

func readEvents(m *ebpf.Map) (*EventReader, error) {
	ring, err := ringbuf.NewReader(m)
	if err != nil {
		return nil, fmt.Errorf("open ring %s: %w", m, err)
	}
	return &EventReader{ring: ring}, nil
}

// Read waits for the next event, or for Close.
func (r *EventReader) Read() (Event, error) {
	record, err := r.ring.Read()
	if errors.Is(err, ringbuf.ErrClosed) {
		return Event{}, ErrClosed
	}
	if err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	return decodeEvent(record.RawSample)
}

// Close ends a Read that is waiting, and all later ones.
func (r *EventReader) Close() error {
	if err := r.ring.Close(); err != nil {
		return fmt.Errorf("close ring: %w", err)
	}
	return nil
}

// decodeEvent reads the programs' event.
func decodeEvent(sample []byte) (Event, error) {
	var e bpf.AliothPacketEvent
	if err := binary.Read(bytes.NewReader(sample), binary.NativeEndian, &e); err != nil {
		return Event{}, fmt.Errorf("decode event of %d bytes: %w", len(sample), err)
	}
	return Event{
		Time:       time.Duration(e.Time),
		Ifindex:    int(e.Ifindex),
		VNI:        e.Vni,
		Reason:     Reason(e.Reason),
		Direction:  Direction(e.Direction),
		Came:       decodeTuple(e.Came),
		Went:       decodeTuple(e.Went),
		OuterSrc:   bpf.DecodeAddr(e.OuterSrc),
		OuterDst:   bpf.DecodeAddr(e.OuterDst),
		Proto:      e.Proto,
		PacketMark: uint32(e.Mark),
	}, nil
}

func decodeTuple(t bpf.AliothTuple) Tuple {
	return Tuple{
		Src: bpf.DecodeAddr(
			t.Src,
		), Dst: bpf.DecodeAddr(t.Dst), Sport: bpf.NetworkOrder(t.Sport), Dport: bpf.NetworkOrder(t.Dport),
	}
}
