// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

var ip = netip.MustParseAddr

func TestEvent_TranslatedPacket_HasBothEnds(t *testing.T) {
	event := bpf.AliothPacketEvent{Proto: state.ProtoTCP, Reason: bpf.AliothReasonDROP_REWRITE_FAILED}
	event.Came = bpf.AliothTuple{
		Src:   bpf.EncodeAddr(ip("10.0.1.10")),
		Dst:   bpf.EncodeAddr(ip("10.96.0.10")),
		Sport: bpf.NetworkOrder(1000),
		Dport: bpf.NetworkOrder(53),
	}
	event.Went = bpf.AliothTuple{
		Src:   bpf.EncodeAddr(ip("10.0.1.10")),
		Dst:   bpf.EncodeAddr(ip("10.8.1.10")),
		Sport: bpf.NetworkOrder(1000),
		Dport: bpf.NetworkOrder(5353),
	}
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
