// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cached

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// ErrFull reports a table without room for another row.
var ErrFull error = unix.E2BIG

// ErrClosed is returned by Misses.Read after Close.
var ErrClosed = ringbuf.ErrClosed

// Misses receives the addresses without a row that packets were sent to. Each address comes at
// most once in a second. An interface has at most 64 addresses at once and 16 in a second. A lost
// address comes again with the next packet after a second.
type Misses struct {
	ring *ringbuf.Reader
}

// ReadMisses starts to receive misses. Each goes to one reader only.
func ReadMisses(in bpf.Maps) (*Misses, error) {
	ring, err := ringbuf.NewReader(in[bpf.MissesMap])
	if err != nil {
		return nil, fmt.Errorf("open ring %s: %w", bpf.MissesMap, err)
	}
	return &Misses{ring: ring}, nil
}

// Read waits for the next miss, or for Close.
func (m *Misses) Read() (state.Miss, error) {
	record, err := m.ring.Read()
	if errors.Is(err, ringbuf.ErrClosed) {
		return state.Miss{}, ErrClosed
	}
	if err != nil {
		return state.Miss{}, fmt.Errorf("read miss: %w", err)
	}
	return decodeMiss(record.RawSample)
}

// Close ends a Read that is waiting, and all later ones.
func (m *Misses) Close() error {
	if err := m.ring.Close(); err != nil {
		return fmt.Errorf("close ring: %w", err)
	}
	return nil
}

func decodeMiss(sample []byte) (state.Miss, error) {
	var raw bpf.AliothMiss
	if err := binary.Read(bytes.NewReader(sample), binary.NativeEndian, &raw); err != nil {
		return state.Miss{}, fmt.Errorf("decode miss of %d bytes: %w", len(sample), err)
	}
	return state.Miss{VNI: raw.Vni, IP: bpf.DecodeAddr(raw.Ip), Ifindex: int(raw.Ifindex)}, nil
}
