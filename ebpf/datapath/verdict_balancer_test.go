// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// A load balancer's address is out of the VPC's own ranges, in a subnet without pods,
// and two VPCs may have the same one.
func TestAVirtualAddressMayBeOfTheVPCsOwnRange(t *testing.T) {
	const vip, vip6 = "10.0.9.1", "fd10:0:0:9::1"
	w := newScaledWorld(t)
	s := w.scaledState()
	b, b6 := Ip("10.0.1.11"), Ip("fd10:0:0:1::11")
	s.Services = append(s.Services,
		state.Service{VNI: vniRed, VIP: Ip(vip), Proto: state.ProtoTCP, Port: 80, Backends: []state.Backend{{IP: b, Port: 8080}}},
		state.Service{VNI: vniRed, VIP: Ip(vip6), Proto: state.ProtoTCP, Port: 80, Backends: []state.Backend{{IP: b6, Port: 8080}}},
		state.Service{VNI: vniBlue, VIP: Ip(vip), Proto: state.ProtoTCP, Port: 80, Backends: []state.Backend{{IP: b, Port: 9090}}},
	)
	s.Subnets = append(s.Subnets, state.Subnet{VNI: vniRed, Prefix: Px("10.0.9.0/24")}, state.Subnet{VNI: vniBlue, Prefix: Px("10.0.9.0/24")})
	Must(t, w.Apply(s))
	syn, data := tcp{Sport: 1000, Dport: 80, Flags: flagSYN}, tcp{Sport: 1000, Dport: 80, Flags: flagACK, Payload: []byte("x")}
	to := func(dst string, port uint16, l4 tcp) func(*frame) {
		l4.Dport = port
		return func(f *frame) { f.Dst, f.L4 = Ip(dst), l4 }
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		goes("an opening of red", w.podA, asks(vip, syn), MacB, to("10.0.1.11", 8080, syn)),
		goes("the same packet of blue", w.twin, asks(vip, syn), macR, to("10.0.1.11", 9090, syn)),
		goes("red's data", w.podA, asks(vip, data), MacB, to("10.0.1.11", 8080, data)),
		goes("blue's data", w.twin, asks(vip, data), macR, to("10.0.1.11", 9090, data)),
		goes("over IPv6", w.podA, asks(vip6, syn), MacB, to("fd10:0:0:1::11", 8080, syn)),
		dropped("a port that it does not have", w.podA, asks(vip, tcp{Sport: 1000, Dport: 81, Flags: flagSYN}).bytes(), "service_port"),
		dropped("an address beside it", w.podA, asks("10.0.9.2", syn).bytes(), "no_endpoint"),
	})
	Must(t, w.Apply(w.scaledState()))
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("when it is nobody's any more", w.podA, asks(vip, tcp{Sport: 1001, Dport: 80, Flags: flagSYN}).bytes(), "no_subnet"),
	})
}
