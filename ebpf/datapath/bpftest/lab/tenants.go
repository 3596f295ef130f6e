// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// ScaledTenants gives both tenants of a lab services at the same addresses: TCP port 80
// at vipB leads to pod 20 of each, on another node than its clients, and at vipSelf to
// pod 10 itself; vipNone has no backend.
func ScaledTenants(t testing.TB, device PodDevice) (l *Lab, red, blue map[int]*Pod) {
	t.Helper()
	l, red, blue = TwoTenants(t, device)
	ofFamily := [][3]string{
		{world.VIPB, world.VipSelf, world.VipNone},
		{world.VipB6, world.VipSelf6, world.VipNone6},
	}
	for _, n := range l.Nodes {
		for _, vni := range []uint32{VNI1, VNI2} {
			for family, vips := range ofFamily {
				for proto, port := range map[uint8]uint16{state.ProtoTCP: 80, state.ProtoUDP: 53} {
					to := func(vip string, backends ...state.Backend) {
						n.State.Services = append(
							n.State.Services,
							state.Service{VNI: vni, VIP: wire.IP(vip), Proto: proto, Port: port, Backends: backends},
						)
					}
					to(vips[0], state.Backend{IP: red[20].Addrs[family], Port: 8080})
					to(vips[1], state.Backend{IP: red[10].Addrs[family], Port: 8080})
					to(vips[2])
				}
			}
		}
	}
	l.Apply()
	return l, red, blue
}

// Talk sends something there and back.
func Talk(t testing.TB, client, server net.Conn) {
	t.Helper()
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		bpftest.Must(t, way[1].SetReadDeadline(time.Now().Add(bpftest.Patience)))
		fmt.Fprint(way[0], "hello")
		buf := make([]byte, 16)
		if n, err := way[1].Read(buf); err != nil || string(buf[:n]) != "hello" {
			t.Fatalf("%q arrived, %v", buf[:n], err)
		}
	}
}

// TwoTenants fills a lab with two VPCs of one range. Both have a pod .10 on
// node 1 and a pod .20 on node 2; the first also has .11 on node 1.
func TwoTenants(t testing.TB, device PodDevice) (l *Lab, red, blue map[int]*Pod) {
	t.Helper()
	l = newLab(t)
	l.device = device
	red = map[int]*Pod{
		10: l.addPod(0, VNI1, 10, state.MAC{2, 0, 10, 0, 1, 10}),
		11: l.addPod(0, VNI1, 11, state.MAC{2, 0, 10, 0, 1, 11}),
		20: l.addPod(1, VNI1, 20, state.MAC{2, 0, 10, 0, 1, 20}),
	}
	blue = map[int]*Pod{
		10: l.addPod(0, VNI2, 10, state.MAC{2, 0, 10, 0, 1, 10}),
		20: l.addPod(1, VNI2, 20, state.MAC{2, 0, 10, 0, 1, 20}),
	}
	for _, n := range l.Nodes {
		for _, vni := range []uint32{VNI1, VNI2} {
			n.State.Addresses = append(
				n.State.Addresses,
				state.Address{
					VNI:  vni,
					IP:   wire.IP("10.0.1.1"),
					Kind: state.Gateway,
				},
				state.Address{VNI: vni, IP: wire.IP("fd10:0:0:1::1"), Kind: state.Gateway},
			)
		}
	}
	l.Apply()
	return l, red, blue
}
