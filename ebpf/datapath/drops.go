// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

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
		Src:        cookedAddr(e.Src),
		Dst:        cookedAddr(e.Dst),
		Sport:      networkOrder(e.Sport),
		Dport:      networkOrder(e.Dport),
		Proto:      e.Proto,
		PacketMark: uint32(e.Mark),
	}, nil
}
