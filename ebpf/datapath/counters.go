// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// Counter is the number of packets that met one fate at one hook since the
// maps were made. Of sockets, connects are counted, and no bytes.
type Counter struct {
	Reason    Reason
	Direction Direction
	Packets   uint64
	Bytes     uint64 // of whole frames; a segmentation-offloaded one counts once
}

// Counters reads all counters that are not zero, ordered by reason and
// direction.
func (r *Reader) Counters() ([]Counter, error) {
	m := r.maps["alioth_counters"]
	var counters []Counter
	for index := range m.MaxEntries() {
		var perCPU []aliothCounter
		if err := m.Lookup(index, &perCPU); err != nil {
			return nil, fmt.Errorf("read counter %d: %w", index, err)
		}
		c := Counter{
			Reason:    Reason(index / uint32(aliothDirectionDIRECTION_LEN)),
			Direction: Direction(index % uint32(aliothDirectionDIRECTION_LEN)),
		}
		for _, cpu := range perCPU {
			c.Packets += cpu.Packets
			c.Bytes += cpu.Bytes
		}
		if c.Packets != 0 {
			counters = append(counters, c)
		}
	}
	return counters, nil
}

// Drop is one dropped packet out of the sample that the programs report: per
// interface and reason at most one in a second. Fields that had not been read
// when the packet was dropped are zero.
type Drop struct {
	Time       time.Duration // of the monotonic clock
	Ifindex    int           // the device whose program dropped it
	VNI        uint32
	Reason     Reason
	Direction  Direction
	Src, Dst   netip.Addr
	Sport      uint16
	Dport      uint16
	Proto      uint8
	PacketMark uint32
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
