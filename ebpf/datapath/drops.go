// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// Tuple is the two ends of a packet. What had not been read is zero; protocols
// without ports have none.
type Tuple struct {
	Src, Dst     netip.Addr
	Sport, Dport uint16
}

// Drop is one dropped packet out of the sample that the programs report: per
// interface and reason at most one in a second. Fields that had not been read
// when the packet was dropped are zero.
type Drop struct {
	Time      time.Duration // of the monotonic clock
	Ifindex   int           // the device whose program dropped it
	VNI       uint32        // of a packet from the tunnel: as it says itself
	Reason    Reason
	Direction Direction
	// Came are the packet's ends as it came to the program, Went what the
	// shadow door had made of them; zero if it had done nothing.
	Came, Went Tuple
	// OuterSrc and OuterDst are the nodes' addresses of a packet from the
	// tunnel.
	OuterSrc, OuterDst netip.Addr
	Proto              uint8
	PacketMark         uint32
}

// ErrClosed is returned by DropReader.Read after Close.
var ErrClosed = ringbuf.ErrClosed

// DropReader receives drops. An event goes to one reader only.
type DropReader struct {
	ring *ringbuf.Reader
}

// Drops starts to receive drops.
func (d *Datapath) Drops() (*DropReader, error) {
	ring, err := ringbuf.NewReader(d.objects.AliothDrops)
	if err != nil {
		return nil, fmt.Errorf("open ring of drops: %w", err)
	}
	return &DropReader{ring: ring}, nil
}

// Read waits for the next drop, or for Close.
func (r *DropReader) Read() (Drop, error) {
	record, err := r.ring.Read()
	if errors.Is(err, ringbuf.ErrClosed) {
		return Drop{}, ErrClosed
	}
	if err != nil {
		return Drop{}, fmt.Errorf("read drop: %w", err)
	}
	return decodeDrop(record.RawSample)
}

// Close ends a Read that is waiting, and all later ones.
func (r *DropReader) Close() error {
	if err := r.ring.Close(); err != nil {
		return fmt.Errorf("close ring of drops: %w", err)
	}
	return nil
}

// decodeDrop reads the programs' event.
func decodeDrop(sample []byte) (Drop, error) {
	var e aliothDropEvent
	if err := binary.Read(bytes.NewReader(sample), binary.NativeEndian, &e); err != nil {
		return Drop{}, fmt.Errorf("decode drop of %d bytes: %w", len(sample), err)
	}
	return Drop{
		Time:       time.Duration(e.Time),
		Ifindex:    int(e.Ifindex),
		VNI:        e.Vni,
		Reason:     Reason(e.Reason),
		Direction:  Direction(e.Direction),
		Came:       cookedTuple(e.Came),
		Went:       cookedTuple(e.Went),
		OuterSrc:   cookedAddr(e.OuterSrc),
		OuterDst:   cookedAddr(e.OuterDst),
		Proto:      e.Proto,
		PacketMark: uint32(e.Mark),
	}, nil
}

func cookedTuple(t aliothTuple) Tuple {
	return Tuple{
		Src: cookedAddr(t.Src), Dst: cookedAddr(t.Dst), Sport: networkOrder(t.Sport), Dport: networkOrder(t.Dport),
	}
}
