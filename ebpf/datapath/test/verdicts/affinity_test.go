// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// sticky gives the services of TCP port 80 at vipB, red's and blue's, affinity and
// several backends.
func sticky(w *world.World) state.State {
	s := w.ScaledState()
	for i, service := range s.Services {
		if service.VNI == 0 || service.VIP != wire.IP(world.VIPB) || service.Proto != state.ProtoTCP || service.Port != 80 {
			continue
		}
		s.Services[i].Backends, s.Services[i].Affinity = nil, time.Hour
		for host := range byte(8) {
			at := netip.AddrFrom4([4]byte{10, 0, 1, 30 + host})
			s.Services[i].Backends = append(s.Services[i].Backends, state.Backend{IP: at, Port: 8080})
			s.Addresses = append(s.Addresses, state.Address{VNI: service.VNI, IP: at, Kind: state.Remote, Node: wire.IP("192.0.2.2"), MAC: world.MacR})
		}
	}
	return s
}

// opens opens a flow of a pod with the addresses of pod A, and returns its backend.
func opens(t *testing.T, w *world.World, device int, port uint16) netip.Addr {
	t.Helper()
	verdict, out, _ := world.Run(t, w.Objects.AliothFromPod, device, world.Asks(world.VIPB, wire.TCP{Sport: port, Dport: 80, Flags: wire.FlagSYN}).Bytes())
	if verdict != world.ActRedirect {
		t.Fatalf("verdict is %d", verdict)
	}
	return netip.AddrFrom4([4]byte(out[30:34]))
}

func TestAffinity_ClientOfOtherVPC_NoEffect(t *testing.T) {
	w := world.NewScaled(t)
	bpftest.Must(t, w.Apply(sticky(w)))
	kept := opens(t, w, w.Twin, 1000)
	world.Crowd(t, w.Datapath, world.VNIRed)
	for port := range uint16(50) {
		if got := opens(t, w, w.Twin, 1001+port); got != kept {
			t.Fatalf("flow %d of the other VPC goes to %s, the first went to %s", port, got, kept)
		}
	}
	// Another client's row gives way to rows of the VPC's own.
	first := opens(t, w, w.PodA, 1000)
	for port := range uint16(50) {
		if got := opens(t, w, w.PodA, 1001+port); got != first {
			t.Fatalf("flow %d goes to %s, the first went to %s", port, got, first)
		}
	}
}

// stickyVNIs lists the VPCs that have a table.
func stickyVNIs(t *testing.T, d *bpftest.Datapath) []uint32 {
	t.Helper()
	ids := map[uint32]uint32{}
	bpftest.Must(t, bpf.ReadMap(d.Objects.AliothAffinities, ids))
	return slices.Sorted(maps.Keys(ids))
}

func TestAffinityTable_ServicesChange_OnlyWhileNeeded(t *testing.T) {
	w := world.NewScaled(t)
	with, without := sticky(w), w.ScaledState()
	one := sticky(w)
	for i := range one.Services {
		if one.Services[i].VNI == world.VNIBlue {
			one.Services[i].Affinity = 0
		}
	}
	for _, c := range []struct {
		what string
		now  state.State
		want []uint32
	}{
		{"no service gives any", without, nil},
		{"one of either VPC does", with, []uint32{world.VNIRed, world.VNIBlue}},
		{"one VPC's does no longer", one, []uint32{world.VNIRed}},
		{"neither does", without, nil},
		{"one does again", one, []uint32{world.VNIRed}},
	} {
		bpftest.Must(t, w.Apply(c.now))
		if got := stickyVNIs(t, w.Datapath); !slices.Equal(got, c.want) {
			t.Errorf("%s: tables of VNIs %v, want %v", c.what, got, c.want)
		}
	}
	// A table that another program deletes is made again.
	bpftest.Must(t, w.Objects.AliothAffinities.Delete(uint32(world.VNIRed)))
	if harmed, err := w.Survey(); err != nil || !harmed {
		t.Errorf("harmed: %v, %v", harmed, err)
	}
	w.Recheck()
	bpftest.Must(t, w.Apply(one))
	if got := stickyVNIs(t, w.Datapath); !slices.Equal(got, []uint32{world.VNIRed}) {
		t.Errorf("tables of VNIs %v after the repair", got)
	}
}

// A table stays while the daemon is away, and while it looks at everything anew.
func TestAffinity_DaemonRestarts_Kept(t *testing.T) {
	l, _, _ := lab.ScaledTenants(t, lab.Veth)
	n := l.Nodes[0]
	for i, s := range n.State.Services {
		if s.VNI == lab.VNI1 && s.VIP == wire.IP(world.VIPB) && s.Proto == state.ProtoTCP {
			n.State.Services[i].Affinity = time.Hour
		}
	}
	l.Apply()
	key := bpf.AliothAffinityKey{Vni: lab.VNI1}
	bpftest.Must(t, world.AffinitiesOf(t, n.Datapath, lab.VNI1).Put(key, bpf.AliothAffinity{LastOpened: 1}))
	n.Restart(t, func() {})
	n.Datapath.Recheck()
	l.Apply()
	var row bpf.AliothAffinity
	if err := world.AffinitiesOf(t, n.Datapath, lab.VNI1).Lookup(key, &row); err != nil {
		t.Errorf("a row is gone: %v", err)
	}
}

// An earlier version had one table of affinities for all VPCs.
func TestUpgrade_ToAffinityTables_FlowsKept(t *testing.T) {
	l, red, _ := lab.ScaledTenants(t, lab.Veth)
	listener := bpftest.Listen(t, red[20].NS, netip.AddrPortFrom(red[20].Addrs[0], 8080))
	conn, err := bpftest.Dial(t, red[10].NS, netip.AddrPortFrom(wire.IP(world.VIPB), 80), 0)
	bpftest.Must(t, err)
	peer, _ := bpftest.Accept(t, listener)
	n := l.Nodes[0]
	pin := filepath.Join(n.Config.PinDir, bpf.AffinitiesMap)
	n.Restart(t, func() {
		spec, err := bpf.LoadAlioth()
		bpftest.Must(t, err)
		last := spec.Maps[bpf.AffinitiesMap].InnerMap
		last.MaxEntries = 32768
		m, err := ebpf.NewMap(last)
		bpftest.Must(t, err)
		defer m.Close()
		bpftest.Must(t, os.Remove(pin))
		bpftest.Must(t, m.Pin(pin))
	})
	lab.Talk(t, conn, peer)
	l.Apply()
	now, err := ebpf.LoadPinnedMap(pin, nil)
	bpftest.Must(t, err)
	defer now.Close()
	if now.Type() != ebpf.HashOfMaps {
		t.Errorf("the map of affinities is %s", now.Type())
	}
}
