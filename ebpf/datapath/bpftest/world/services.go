// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// AffinitiesOf returns the table of a VPC's clients, nil if it has none.
func AffinitiesOf(t testing.TB, d *bpftest.Datapath, vni uint32) *ebpf.Map {
	t.Helper()
	var table *ebpf.Map
	if err := d.Objects.AliothAffinities.Lookup(vni, &table); errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}

// Crowd gives affinity to twice as many clients of a VPC as there is room for.
func Crowd(t testing.TB, d *bpftest.Datapath, vni uint32) {
	t.Helper()
	table := AffinitiesOf(t, d, vni)
	key := bpf.AliothAffinityKey{
		Service: bpf.AliothServiceKey{
			Vni:   vni,
			Vip:   bpf.EncodeAddr(wire.IP(VIPB)),
			Port:  bpf.NetworkOrder(1),
			Proto: state.ProtoTCP,
		},
		Vni: vni,
	}
	for i := range 2 * table.MaxEntries() {
		key.Client = bpf.EncodeAddr(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}))
		bpftest.Must(t, table.Put(key, bpf.AliothAffinity{LastOpened: uint64(i)}))
	}
}

// Leading returns services of a VPC that lead outside of it.
func Leading(vni uint32, backend4, backend6 string) []state.Service {
	var list []state.Service
	for vip, backend := range map[string]string{VIPB: backend4, VipB6: backend6} {
		list = append(
			list,
			state.Service{
				VNI:      vni,
				VIP:      wire.IP(vip),
				Proto:    state.ProtoTCP,
				Port:     80,
				Backends: []state.Backend{{IP: wire.IP(backend), Port: 8080, Outside: true}},
			},
			state.Service{
				VNI:      vni,
				VIP:      wire.IP(vip),
				Proto:    state.ProtoUDP,
				Port:     53,
				Backends: []state.Backend{{IP: wire.IP(backend), Port: 5353, Outside: true}},
			},
		)
	}
	return list
}

// The virtual addresses of the red VPC's services.
const (
	VIPB     = "10.96.1.1" // TCP 80 -> pod B; UDP 53 -> a pod of another node
	VipSelf  = "10.96.1.2" // pod A itself
	VipNone  = "10.96.1.3" // no backend
	VipB6    = "fd96::1:1"
	VipNone6 = "fd96::1:3"
	VipSelf6 = "fd96::1:2"
)

func scaledServices() []state.Service {
	to := func(vni uint32, vip string, proto uint8, port uint16, backends ...state.Backend) state.Service {
		return state.Service{VNI: vni, VIP: wire.IP(vip), Proto: proto, Port: port, Backends: backends}
	}
	a, b, far := wire.IP("10.0.1.10"), wire.IP("10.0.1.11"), wire.IP("10.0.1.20")
	a6, b6 := wire.IP("fd10:0:0:1::10"), wire.IP("fd10:0:0:1::11")
	return []state.Service{
		to(
			VNIRed,
			VIPB,
			state.ProtoTCP,
			80,
			state.Backend{IP: b, Port: 8080},
		), to(VNIRed, VIPB, state.ProtoUDP, 53, state.Backend{IP: far, Port: 5353}),
		to(
			VNIRed,
			VipSelf,
			state.ProtoTCP,
			80,
			state.Backend{IP: a, Port: 8080},
		), to(VNIRed, VipSelf, state.ProtoUDP, 53, state.Backend{IP: a, Port: 5353}),
		to(VNIRed, VipNone, state.ProtoTCP, 80), to(VNIRed, VipNone, state.ProtoUDP, 53),
		to(
			VNIRed,
			VipB6,
			state.ProtoTCP,
			80,
			state.Backend{IP: b6, Port: 8080},
		), to(VNIRed, VipSelf6, state.ProtoTCP, 80, state.Backend{IP: a6, Port: 8080}),
		to(VNIRed, VipNone6, state.ProtoTCP, 80), to(VNIRed, VipNone6, state.ProtoUDP, 53),
		to(VNIBlue, VIPB, state.ProtoTCP, 80, state.Backend{IP: b, Port: 9090}),
	}
}

// ScaledState returns the world with services in its VPCs.
func (w *World) ScaledState() state.State {
	s := w.State()
	s.Services = append(s.Services, scaledServices()...)
	s.Addresses = append(
		s.Addresses,
		state.Address{VNI: VNIBlue, IP: wire.IP("10.0.1.11"), Kind: state.Remote, Node: wire.IP("192.0.2.2"), MAC: MacR},
	)
	return s
}

// NewScaled makes a world with services in its VPCs.
func NewScaled(t testing.TB, adapt ...func(*programs.Config)) *World {
	t.Helper()
	w := New(t, append(adapt, func(c *programs.Config) { c.ConnectionsPerInterface = 1000 })...)
	bpftest.Must(t, w.Apply(w.ScaledState()))
	return w
}

// FlowRows returns the entries of the table of flows.
func FlowRows(m *ebpf.Map) (map[bpf.AliothConnKey]bpf.AliothConn, error) {
	rows := map[bpf.AliothConnKey]bpf.AliothConn{}
	return rows, bpf.ReadMap(m, rows)
}

// Monotonic returns the time on the clock of the programs.
func Monotonic(t testing.TB) time.Duration {
	t.Helper()
	now, err := datapath.MonotonicNow()
	if err != nil {
		t.Fatal(err)
	}
	return now
}
