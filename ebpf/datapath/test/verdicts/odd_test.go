// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// odd is a packet that is not of the usual kind, ready to be sent anywhere.
type odd struct {
	v6     bool
	mutate func(*wire.Frame)
	// spoil changes the bytes of the frame.
	spoil func([]byte) []byte
}

// oddPackets returns the rows of docs/reference/packets.md.
func oddPackets() map[string]odd {
	proto := func(number uint8) func(*wire.Frame) {
		return func(f *wire.Frame) { f.L4 = wire.Raw{Proto: number, Data: make([]byte, 40)} }
	}
	l4 := func(t wire.Transport) func(*wire.Frame) { return func(f *wire.Frame) { f.L4 = t } }
	later := func(number uint8) func(*wire.Frame) {
		return func(f *wire.Frame) {
			f.Fragment, f.ID, f.L4 = &wire.Fragment{Offset: 185, More: false}, 1, wire.Raw{Proto: number, Data: []byte("the rest")}
		}
	}
	extended := func(e ...wire.Extension) func(*wire.Frame) { return func(f *wire.Frame) { f.Extensions = e } }
	control := func(kind uint8, size int) func(*wire.Frame) {
		return func(f *wire.Frame) { f.Hops, f.L4 = 255, wire.ICMP{V6: true, Type: kind, Body: make([]byte, size)} }
	}
	// An error of the pod about a packet to it.
	quote := func(f *wire.Frame, m wire.ICMP) {
		f.L4 = wire.Quoting(m, wire.Frame{Src: f.Dst, Dst: f.Src, L4: wire.UDP{Sport: 53, Dport: 1000, NoChecksum: true}})
	}
	// An error about a packet that the pod neither sent nor received.
	foreign := func(f *wire.Frame, m wire.ICMP) {
		about := wire.Frame{Src: f.Dst, Dst: wire.IP("10.0.1.12"), L4: wire.UDP{Sport: 53, Dport: 1000}}
		if m.V6 {
			about.Dst = wire.IP("fd10:0:0:1::12")
		}
		f.L4 = wire.Quoting(m, about)
	}
	set16 := func(at int, value uint16) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.BigEndian.PutUint16(b[at:], value)
			return wire.Checked(b)
		}
	}
	// ends6 writes a payload length into the IPv6 header, whatever the real one is.
	ends6 := func(size uint16) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.BigEndian.PutUint16(b[18:], size)
			return b
		}
	}
	return map[string]odd{
		"a first fragment":         {mutate: func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 0, More: true} }},
		"a later fragment of TCP":  {mutate: later(state.ProtoTCP)},
		"a later fragment of UDP":  {mutate: later(state.ProtoUDP)},
		"a later fragment of SCTP": {mutate: later(132)},
		"a first fragment of an odd length": {mutate: func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 0, More: true} }, spoil: func(b []byte) []byte {
			return set16(16, uint16(len(b)-15))(b[:len(b)-1])
		}},
		"a first fragment of an odd length over IPv6": {
			v6:     true,
			mutate: func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 0, More: true} },
			spoil: func(b []byte) []byte {
				return ends6(uint16(len(b) - 55))(b[:len(b)-1])
			},
		},
		"a first fragment over IPv6":        {v6: true, mutate: func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 0, More: true} }},
		"a later fragment of UDP over IPv6": {v6: true, mutate: later(state.ProtoUDP)},
		"fragments that overlap": {mutate: func(f *wire.Frame) {
			f.Fragment, f.ID, f.L4 = &wire.Fragment{Offset: 1, More: true}, 1, wire.Raw{Proto: state.ProtoTCP, Data: make([]byte, 64)}
		}},
		"an echo request":                        {mutate: l4(wire.ICMP{Type: 8, Body: make([]byte, 12)})},
		"a timestamp request":                    {mutate: l4(wire.ICMP{Type: 13, Body: make([]byte, 16)})},
		"an ICMP error":                          {mutate: func(f *wire.Frame) { quote(f, wire.ICMP{Type: 3, Code: 1}) }},
		"an ICMPv6 error":                        {v6: true, mutate: func(f *wire.Frame) { quote(f, wire.ICMP{V6: true, Type: 1}) }},
		"an ICMP error about another's packet":   {mutate: func(f *wire.Frame) { foreign(f, wire.ICMP{Type: 3, Code: 3}) }},
		"an ICMPv6 error about another's packet": {v6: true, mutate: func(f *wire.Frame) { foreign(f, wire.ICMP{V6: true, Type: 1, Code: 4}) }},
		"an ICMP error in fragments": {mutate: func(f *wire.Frame) {
			quote(f, wire.ICMP{Type: 3, Code: 1})
			f.Fragment = &wire.Fragment{Offset: 0, More: true}
		}},
		"an ICMP source quench":        {mutate: func(f *wire.Frame) { foreign(f, wire.ICMP{Type: 4}) }},
		"an ICMP redirect":             {mutate: l4(wire.ICMP{Type: 5, Code: 1, Body: make([]byte, 32)})},
		"an ICMPv6 redirect":           {v6: true, mutate: control(137, 36)},
		"an unsolicited advertisement": {v6: true, mutate: func(f *wire.Frame) { f.Hops, f.L4 = 255, advertisement("fd10:0:0:1::11") }},
		"a router advertisement":       {v6: true, mutate: control(134, 12)},
		"a router solicitation":        {v6: true, mutate: control(133, 4)},
		"a multicast listener report":  {v6: true, mutate: control(143, 24)},
		"IPv4 options":                 {mutate: func(f *wire.Frame) { f.Options = []byte{1, 1, 1, 0} }},
		"an IPv4 source route":         {mutate: func(f *wire.Frame) { f.Options = []byte{131, 7, 4, 192, 0, 2, 1, 0} }},
		"hop-by-hop options":           {v6: true, mutate: extended(wire.Extension{Type: 0, Body: make([]byte, 6)})},
		"a mobility header":            {v6: true, mutate: extended(wire.Extension{Type: 135, Body: make([]byte, 6)})},
		"a fragment of a fragment": {v6: true, mutate: func(f *wire.Frame) {
			f.Fragment, f.Extensions = &wire.Fragment{Offset: 0, More: true}, []wire.Extension{{Type: 44, Body: make([]byte, 6)}}
		}},
		"ports behind the end of the packet":      {mutate: l4(wire.UDP{Sport: 1000, Dport: 2000}), spoil: set16(16, 20)},
		"IPv6 ports behind the end of the packet": {v6: true, mutate: l4(wire.UDP{Sport: 1000, Dport: 2000}), spoil: ends6(0)},
		"a first fragment whose ports are behind its end": {v6: true, mutate: func(f *wire.Frame) {
			f.Fragment, f.L4 = &wire.Fragment{Offset: 0, More: true}, wire.UDP{Sport: 1000, Dport: 2000, Payload: make([]byte, 8)}
		}, spoil: ends6(8)},
		"a first fragment whose headers are behind its end": {v6: true, mutate: func(f *wire.Frame) {
			f.Fragment, f.L4 = &wire.Fragment{
				Offset: 0,
				More:   true,
			}, wire.Raw{
				Proto: 60,
				Data:  append([]byte{60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4}, make([]byte, 12)...),
			}
		}, spoil: ends6(16)},
		"an authentication header over IPv6": {v6: true, mutate: extended(wire.Extension{Type: 51, Body: make([]byte, 10)})},
		"destination options":                {v6: true, mutate: extended(wire.Extension{Type: 60, Body: make([]byte, 14)})},
		"an IPv6 routing header":             {v6: true, mutate: extended(wire.Extension{Type: 43, Body: make([]byte, 6)})},
		"more than six extension headers":    {v6: true, mutate: extended(slices.Repeat([]wire.Extension{{Type: 60, Body: make([]byte, 6)}}, 7)...)},
		"an extension header cut short":      {v6: true, mutate: func(f *wire.Frame) { f.L4 = wire.Raw{Proto: 60, Data: []byte{6, 0}} }},
		"SCTP":                               {mutate: proto(132)},
		"GRE":                                {mutate: proto(47)},
		"ESP":                                {mutate: proto(50)},
		"AH":                                 {mutate: proto(51)},
		"IP in IP":                           {mutate: proto(4)},
		"IPv6 in IP":                         {mutate: proto(41)},
		"IGMP to a host":                     {mutate: proto(2)},
		"a protocol that nobody knows":       {mutate: proto(253)},
		"SCTP over IPv6":                     {v6: true, mutate: proto(132)},
		"ESP over IPv6":                      {v6: true, mutate: proto(50)},
		"no next header over IPv6":           {v6: true, mutate: proto(59)},
		"VXLAN of a pod's own":               {mutate: l4(wire.UDP{Sport: 50000, Dport: programs.DefaultTunnelPort, Payload: make([]byte, 64)})},
		"UDP without a checksum":             {mutate: l4(wire.UDP{Sport: 1, Dport: 2, NoChecksum: true, Payload: []byte("odd")})},
		"TCP with no flags":                  {mutate: l4(wire.TCP{Sport: 1, Dport: 2})},
		"TCP with every flag":                {mutate: l4(wire.TCP{Sport: 1, Dport: 2, Flags: 0xff})},
		"a header of TCP cut short":          {mutate: l4(wire.Raw{Proto: state.ProtoTCP, Data: make([]byte, 16)})},
		"a hop limit of one":                 {mutate: func(f *wire.Frame) { f.Hops = 1 }},
		"an evil bit":                        {spoil: func(b []byte) []byte { b[20] |= 0x80; return wire.Checked(b) }},
		"a multicast group":                  {mutate: func(f *wire.Frame) { f.Dst = wire.IP("224.0.0.251") }},
		"a multicast group over IPv6":        {v6: true, mutate: func(f *wire.Frame) { f.Dst = wire.IP("ff02::fb") }},
		"the limited broadcast":              {mutate: func(f *wire.Frame) { f.EthDst, f.Dst = world.Bcast, wire.IP("255.255.255.255") }},

		"an ordinary address in a broadcast frame": {mutate: func(f *wire.Frame) { f.EthDst = world.Bcast }},
		"an ordinary address in a multicast frame": {mutate: func(f *wire.Frame) { f.EthDst = state.MAC{1, 0, 0x5e, 0, 0, 1} }},
		"a source of another":                      {mutate: func(f *wire.Frame) { f.Src = wire.IP("10.0.1.11") }},
		"no source":                                {mutate: func(f *wire.Frame) { f.Src = wire.IP("0.0.0.0") }},
		"a group as source":                        {mutate: func(f *wire.Frame) { f.Src = wire.IP("224.0.0.1") }},
		"more bytes than the header says":          {spoil: func(b []byte) []byte { return append(b, "padding"...) }},
		"fewer bytes than the header says":         {spoil: func(b []byte) []byte { return b[:len(b)-1] }},
		"fewer bytes than the IPv6 header says":    {v6: true, spoil: func(b []byte) []byte { return b[:len(b)-1] }},
		"a length below the header's length":       {spoil: set16(16, 19)},
		"an IPv6 jumbogram": {v6: true, mutate: extended(wire.Extension{Type: 0, Body: []byte{194, 4, 0, 1, 0, 0}}), spoil: func(b []byte) []byte {
			b[18], b[19] = 0, 0
			return b
		}},
		"an IPv4 header cut short":            {mutate: func(f *wire.Frame) { f.Options = make([]byte, 40) }, spoil: func(b []byte) []byte { return b[:50] }},
		"another version than the frame says": {spoil: func(b []byte) []byte { b[14] = 6<<4 | 5; return b }},
		"an IPv4-mapped address over IPv6": {v6: true, spoil: func(b []byte) []byte {
			mapped := wire.IP("10.0.1.11").As16()
			copy(b[38:54], mapped[:])
			return b
		}},
		"a VLAN tag":         {spoil: func(b []byte) []byte { return slices.Insert(b, 12, 0x81, 0, 0, 5) }},
		"neither IP nor ARP": {spoil: func(b []byte) []byte { b[12], b[13] = 0x88, 0xcc; return b }},
	}
}

// ends are a source and a destination in each family.
type ends struct{ src4, dst4, src6, dst6 string }

// between returns the frame of pod A between these addresses.
func (o odd) between(e ends) []byte {
	b := world.FromA(func(f *wire.Frame) {
		f.Src, f.Dst = wire.IP(e.src4), wire.IP(e.dst4)
		if o.v6 {
			f.Src, f.Dst = wire.IP(e.src6), wire.IP(e.dst6)
		}
		if o.mutate != nil {
			o.mutate(f)
		}
	}).Bytes()
	if o.spoil != nil {
		b = o.spoil(b)
	}
	return b
}

// documented returns the rows of docs/reference/packets.md: a packet, with its fates inside and
// outside.
func documented(t *testing.T) map[string][2]string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/reference/packets.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][2]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.Contains(line, "---") || strings.Contains(line, "| packet |") {
			continue
		}
		rows[strings.TrimSpace(cells[1])] = [2]string{strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])}
	}
	return rows
}

func TestOddPackets_EachOne_Documented(t *testing.T) {
	packets, rows := oddPackets(), documented(t)
	for name := range packets {
		if _, ok := rows[name]; !ok {
			t.Errorf("docs/reference/packets.md has no row for %q", name)
		}
	}
	for name := range rows {
		if _, ok := packets[name]; !ok {
			t.Errorf("no test has the row %q of docs/reference/packets.md", name)
		}
	}
}

func TestOddPackets_InsideVPC_VerdictAsDocumented(t *testing.T) {
	w := world.New(t)
	var cases []world.Case
	for name, o := range oddPackets() {
		in, fate := o.between(ends{"10.0.1.10", "10.0.1.11", "fd10:0:0:1::10", "fd10:0:0:1::11"}), documented(t)[name][0]
		if fate != "delivered" {
			cases = append(cases, dropped(name, w.PodA, in, fate))
			continue
		}
		out := append(append(world.MacB[:], state.VirtualMAC[:]...), in[12:]...)
		cases = append(cases, world.Case{
			Name: name, Device: w.PodA, In: in, Out: out, Verdict: world.ActRedirect, Counts: world.One("from_pod/forwarded_local"),
		})
	}
	w.Expect(t, w.Objects.AliothFromPod, cases)
}

func TestOddPackets_LeavingVPC_VerdictAsDocumented(t *testing.T) {
	w := world.New(t)
	var cases []world.Case
	for name, o := range oddPackets() {
		in, fate := o.between(ends{"10.0.1.10", world.Outside, "fd10:0:0:1::10", world.Outside6}), documented(t)[name][1]
		if fate != "delivered" {
			cases = append(cases, dropped(name, w.Open, in, fate))
			continue
		}
		cases = append(cases, world.Case{
			Name: name, Device: w.Open, In: in, Verdict: world.ActOK, Mark: state.MarkEgress, Counts: world.One("from_pod/to_stack"),
			Out: o.between(ends{world.ShadowOpen, world.Outside, world.ShadowOpen6, world.Outside6}),
		})
	}
	w.Expect(t, w.Objects.AliothFromPod, cases)
}
