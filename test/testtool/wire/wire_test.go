// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"testing"
)

func frame(source, target string) Frame {
	return Frame{
		SourceMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, TargetMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		Source: netip.MustParseAddrPort(source), Target: netip.MustParseAddrPort(target), Payload: []byte("hi"),
	}
}

func TestEncode_BothFamilies_ChecksumsValid(t *testing.T) {
	tests := map[string]struct {
		frame        Frame
		header, size int
	}{
		"over IPv4": {frame("192.0.2.1:1000", "192.0.2.2:2000"), 20, 14 + 20 + 10},
		"over IPv6": {frame("[2001:db8::1]:1000", "[2001:db8::2]:2000"), 40, 14 + 40 + 10},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.frame.Encode()
			if err != nil {
				t.Fatalf("encode: %v", err)
			}
			if len(got) != tt.size {
				t.Fatalf("frame has %d bytes, want %d:\n%s", len(got), tt.size, hex.Dump(got))
			}
			ip, udp := got[14:14+tt.header], got[14+tt.header:]
			if tt.header == 20 && checksum(ip) != 0 {
				t.Errorf("IPv4 header checksum is wrong:\n%s", hex.Dump(ip))
			}
			pseudo := append(tt.frame.Source.Addr().AsSlice(), tt.frame.Target.Addr().AsSlice()...)
			pseudo = append(pseudo, 0, 0, 0, byte(len(udp)), 0, 0, 0, protocolUDP)
			if checksum(append(pseudo, udp...)) != 0 {
				t.Errorf("UDP checksum is wrong:\n%s", hex.Dump(udp))
			}
			if !bytes.HasSuffix(udp, []byte("hi")) {
				t.Errorf("payload is missing:\n%s", hex.Dump(udp))
			}
		})
	}
}

func TestEncode_Impossible_Refused(t *testing.T) {
	mixed := frame("192.0.2.1:1000", "[2001:db8::2]:2000")
	noMAC := frame("192.0.2.1:1000", "192.0.2.2:2000")
	noMAC.SourceMAC = nil
	long := frame("192.0.2.1:1000", "192.0.2.2:2000")
	long.Payload = make([]byte, 1401)
	for name, f := range map[string]Frame{"two families": mixed, "no MAC": noMAC, "too long": long} {
		if _, err := f.Encode(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestVXLAN_Header_CarriesVNI(t *testing.T) {
	got, err := VXLAN(0x123456, []byte{0xff})
	if err != nil {
		t.Fatal(err)
	}
	if want := []byte{8, 0, 0, 0, 0x12, 0x34, 0x56, 0, 0xff}; !bytes.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
	for _, vni := range []uint32{0, 1 << 24} {
		if _, err := VXLAN(vni, nil); err == nil {
			t.Errorf("vni %d is accepted", vni)
		}
	}
}
