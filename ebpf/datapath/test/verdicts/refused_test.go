// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"encoding/binary"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// resetOf returns the refusal of an opening.
func resetOf(in wire.Frame) []byte {
	asked := in.L4.(wire.TCP)
	b := binary.BigEndian.AppendUint16(nil, asked.Dport)
	b = binary.BigEndian.AppendUint16(b, asked.Sport)
	b = append(b, 0, 0, 0, 0, 1, 2, 3, 5, 5<<4, wire.FlagRST|wire.FlagACK, 0, 0, 0, 0, 0, 0)
	src, dst := in.Dst.AsSlice(), in.Src.AsSlice()
	binary.BigEndian.PutUint16(b[16:], wire.Fold(wire.Sum(wire.Sum(wire.Sum(state.ProtoTCP+20, src), dst), b)))
	out := wire.Frame{EthDst: world.MacA, EthSrc: state.VirtualMAC, Src: in.Dst, Dst: in.Src, Whole: true, L4: wire.Raw{Proto: state.ProtoTCP, Data: b}}.Bytes()
	if in.Dst.Is4() {
		copy(out[18:20], []byte{0, 0}) // no identification
		return trafficClass(out, 0)
	}
	return out
}

// unreachable returns the ICMP error to pod A about a packet that is not delivered. IPv4 has a
// code for a protocol that is neither TCP nor UDP.
func unreachable(about []byte) []byte {
	out := tooBig(about, 0)
	kind, l4, pseudo := []byte{3, 3, 0, 0}, out[34:], uint32(0)
	if about[23] != state.ProtoUDP {
		kind[1] = 2
	}
	if out[14]>>4 == 6 {
		kind, l4 = []byte{1, 4, 0, 0}, out[54:]
		pseudo = wire.Sum(uint32(58+len(l4)), out[22:54])
	}
	copy(l4, kind)
	binary.BigEndian.PutUint16(l4[2:], wire.Fold(wire.Sum(pseudo, l4)))
	return out
}

// refused returns a packet of pod A that a service refuses at once.
func refused(name string, device int, in wire.Frame) world.Case {
	c := world.Case{Name: name, Device: device, In: in.Bytes(), Verdict: world.ActRedirect, Counts: world.One("from_pod/replied_refused")}
	if _, opens := in.L4.(wire.TCP); opens {
		c.Out = resetOf(in)
	} else {
		c.Out = unreachable(c.In)
	}
	return c
}

func TestService_NoBackend_RefusedAtOnce(t *testing.T) {
	w := world.NewScaled(t)
	syn := wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN}
	var cases []world.Case
	for name, in := range map[string]wire.Frame{
		"TCP": world.Asks(world.VipNone, syn), "TCP over IPv6": world.Asks(world.VipNone6, syn),
		"TCP that carries data": world.Asks(world.VipNone, wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN, Payload: make([]byte, 100)}),
		"TCP with IPv4 options": world.Asks(world.VipNone, syn).With(func(f *wire.Frame) { f.Options = []byte{1, 1, 1, 0} }),
		"TCP behind a header":   world.Asks(world.VipNone6, syn).With(func(f *wire.Frame) { f.Extensions = []wire.Extension{{Type: 60, Body: make([]byte, 6)}} }),
	} {
		cases = append(cases, refused(name, w.PodA, in))
	}
	for name, in := range map[string]wire.Frame{
		"UDP": world.Asks(world.VipNone, wire.UDP{Sport: 1000, Dport: 53, Payload: []byte("query")}), "UDP over IPv6": world.Asks(world.VipNone6, wire.UDP{Sport: 1000, Dport: 53}),
		"long UDP": world.Asks(world.VipNone, wire.UDP{Sport: 1000, Dport: 53, Payload: make([]byte, 1400)}),
	} {
		cases = append(cases, refused(name, w.PodA, in))
	}
	cases = append(
		cases,
		dropped(
			"data of a connection that never was",
			w.PodA,
			world.Asks(world.VipNone, wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagACK}).Bytes(),
			"no_connection",
		),
	)
	w.Expect(t, w.Objects.AliothFromPod, cases)
}

// A second service of the VPC with the same backend: the flow of one pod's port to that
// backend belongs to one of them.
func TestService_FlowOfOther_RefusedAtOnce(t *testing.T) {
	const other = "10.96.1.9"
	w := world.NewScaled(t)
	s := w.ScaledState()
	s.Services = append(
		s.Services,
		state.Service{VNI: world.VNIRed, VIP: wire.IP(other), Proto: state.ProtoTCP, Port: 80, Backends: []state.Backend{{IP: wire.IP("10.0.1.11"), Port: 8080}}},
	)
	bpftest.Must(t, w.Apply(s))
	syn := wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN}
	second := world.Asks(other, syn)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		goes("by the first service", w.PodA, world.Asks(world.VIPB, syn), world.MacB, func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP("10.0.1.11"), wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagSYN}
		}),
		refused("by the second, from the same port", w.PodA, second),
	})
}

// The ports and protocols that a virtual address lacks, in a VPC and of a shared service.
func TestService_UnknownPortOrProtocol_RefusedAtOnce(t *testing.T) {
	w := world.NewScaled(t)
	syn := wire.TCP{Sport: 1000, Dport: 81, Flags: wire.FlagSYN}
	var cases []world.Case
	for name, vip := range map[string]string{
		"a service": world.VIPB, "a service over IPv6": world.VipB6, "one without backends": world.VipNone,
		"a shared service": "10.96.0.1", "a shared service over IPv6": "fd96::10",
	} {
		cases = append(cases,
			refused("TCP to "+name, w.PodA, world.Asks(vip, syn)),
			refused("UDP to "+name, w.PodA, world.Asks(vip, wire.UDP{Sport: 1000, Dport: 80, Payload: []byte("query")})),
			refused("SCTP to "+name, w.PodA, world.Asks(vip, wire.Raw{Proto: 132, Data: make([]byte, 32)})),
			refused("another protocol to "+name, w.PodA, world.Asks(vip, wire.Raw{Proto: 47, Data: make([]byte, 32)})))
		for kind, flags := range map[string]uint8{"data": wire.FlagACK, "an answer": wire.FlagSYN | wire.FlagACK, "a reset": wire.FlagSYN | wire.FlagRST} {
			cases = append(cases, dropped(kind+" to "+name, w.PodA, world.Asks(vip, wire.TCP{Sport: 1000, Dport: 81, Flags: flags}).Bytes(), "service_port"))
		}
	}
	w.Expect(t, w.Objects.AliothFromPod, cases)
}
