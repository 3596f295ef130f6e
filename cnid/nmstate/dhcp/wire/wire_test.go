// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"
)

var hardware = net.HardwareAddr{2, 0, 0, 0, 0, 1}

// answer is a packet of a server to the client with a hardware address.
func answer(to net.HardwareAddr) []byte {
	payload := make([]byte, 300)
	payload[0] = 2 // BOOTREPLY
	copy(payload[28:], to)
	p := datagram(payload, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("255.255.255.255"))
	p[ipHeader+1], p[ipHeader+3] = serverPort, clientPort
	return p
}

func TestDatagram_Marshal_ChecksumsRight(t *testing.T) {
	p := datagram([]byte{1, 2, 3}, netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("255.255.255.255"))
	if checksum(p[:ipHeader], 0) != 0 {
		t.Errorf("the header %s has a wrong checksum", hex.EncodeToString(p[:ipHeader]))
	}
	if checksum(p[ipHeader:], sum(p[12:ipHeader], 17+11)) != 0 {
		t.Errorf("the datagram %s has a wrong checksum", hex.EncodeToString(p))
	}
	if got, ok := payloadOf(p); !ok || !bytes.Equal(got, []byte{1, 2, 3}) {
		t.Errorf("its payload is %x, %v", got, ok)
	}
}

func TestDHCPFilter_EachPacket_OnlyClientAnswersPass(t *testing.T) {
	// The type of a frame is the kernel's; without it the filter is the same.
	program := answersTo(hardware)[3:]
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(at int, to byte) []byte {
		p := answer(hardware)
		p[at] = to
		return p
	}
	longer := append(append([]byte{0x46}, answer(hardware)[1:ipHeader]...), 1, 1, 1, 1)
	longer = append(longer, answer(hardware)[ipHeader:]...)
	for name, c := range map[string]struct {
		packet []byte
		want   bool
	}{
		"an answer":              {answer(hardware), true},
		"with options of IP":     {longer, true},
		"to another client":      {answer(net.HardwareAddr{2, 0, 0, 0, 0, 2}), false},
		"to another vendor's":    {answer(net.HardwareAddr{4, 0, 0, 0, 0, 1}), false},
		"TCP":                    {changed(9, 6), false},
		"the begin of a packet":  {changed(6, 0x20), false},
		"the rest of a packet":   {changed(7, 1), false},
		"to the port of servers": {changed(ipHeader+3, serverPort), false},
		"a request":              {changed(ipHeader+udpHeader, 1), false},
		"cut off":                {answer(hardware)[:40], false},
		"empty":                  {nil, false},
	} {
		n, err := vm.Run(c.packet)
		if err != nil || (n > 0) != c.want {
			t.Errorf("%s: got %d, %v", name, n, err)
		}
	}
}

func TestAddressClaim_EachPacket_ClaimantFound(t *testing.T) {
	us := &ARP{hardware: hardware}
	other := &ARP{hardware: net.HardwareAddr{2, 0, 0, 0, 0, 2}}
	ours, theirs := netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("192.0.2.11")
	none := netip.IPv4Unspecified()
	for name, c := range map[string]struct {
		packet []byte
		want   netip.Addr
	}{
		"it has the address":            {other.request(ours, theirs), ours},
		"it is about to take it":        {other.request(none, ours), ours},
		"our own probe, by a loop":      {us.request(none, ours), netip.Addr{}},
		"cut off":                       {other.request(ours, theirs)[:20], netip.Addr{}},
		"another protocol":              {append([]byte{0, 1, 8, 6}, other.request(ours, theirs)[4:]...), netip.Addr{}},
		"neither a request nor a reply": {append(other.request(ours, theirs)[:7:7], append([]byte{8}, other.request(ours, theirs)[8:]...)...), netip.Addr{}},
	} {
		if got, by, ok := us.claimOf(c.packet); got != c.want || ok != c.want.IsValid() || ok && !bytes.Equal(by, other.hardware) {
			t.Errorf("%s: got %v of %v, %v", name, got, by, ok)
		}
	}
}

func FuzzPackets(f *testing.F) {
	f.Add(answer(hardware))
	us := &ARP{hardware: hardware}
	f.Add(us.request(netip.IPv4Unspecified(), netip.MustParseAddr("192.0.2.10")))
	f.Fuzz(func(t *testing.T, packet []byte) {
		if payload, ok := payloadOf(packet); ok && len(payload) > len(packet)-ipHeader-udpHeader {
			t.Errorf("%d bytes of payload in %d", len(payload), len(packet))
		}
		us.claimOf(packet)
	})
}
