// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestATranslatedPacketHasBothItsEnds(t *testing.T) {
	event := aliothPacketEvent{Proto: state.ProtoTCP, Reason: aliothReasonDROP_REWRITE_FAILED}
	event.Came = aliothTuple{Src: encodeAddr(ip("10.0.1.10")), Dst: encodeAddr(ip("10.96.0.10")), Sport: networkOrder(1000), Dport: networkOrder(53)}
	event.Went = aliothTuple{Src: encodeAddr(ip("10.0.1.10")), Dst: encodeAddr(ip("10.8.1.10")), Sport: networkOrder(1000), Dport: networkOrder(5353)}
	var sample bytes.Buffer
	if err := binary.Write(&sample, binary.NativeEndian, event); err != nil {
		t.Fatal(err)
	}
	drop, err := decodeEvent(sample.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	got := []Tuple{drop.Came, drop.Went}
	want := []Tuple{{ip("10.0.1.10"), ip("10.96.0.10"), 1000, 53}, {ip("10.0.1.10"), ip("10.8.1.10"), 1000, 5353}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := decodeEvent(sample.Bytes()[:100]); err == nil {
		t.Error("half an event is none")
	}
}
