// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// affinitiesOf returns the table of a VPC's clients, nil if it has none.
func affinitiesOf(t *testing.T, d *opened, vni uint32) *ebpf.Map {
	t.Helper()
	var table *ebpf.Map
	if err := d.objects.AliothAffinities.Lookup(vni, &table); errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}

// crowd gives affinity to twice as many clients of a VPC as there is room for.
func crowd(t *testing.T, d *opened, vni uint32) {
	t.Helper()
	table := affinitiesOf(t, d, vni)
	key := bpf.AliothAffinityKey{Service: bpf.AliothServiceKey{Vni: vni, Vip: bpf.EncodeAddr(Ip(vipB)), Port: bpf.NetworkOrder(1), Proto: state.ProtoTCP}, Vni: vni}
	for i := range 2 * table.MaxEntries() {
		key.Client = bpf.EncodeAddr(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}))
		Must(t, table.Put(key, bpf.AliothAffinity{LastOpened: uint64(i)}))
	}
}

// sticky gives the services of TCP port 80 at vipB, red's and blue's, affinity and
// several backends.
func sticky(w *world) state.State {
	s := w.scaledState()
	for i, service := range s.Services {
		if service.VNI == 0 || service.VIP != Ip(vipB) || service.Proto != state.ProtoTCP || service.Port != 80 {
			continue
		}
		s.Services[i].Backends, s.Services[i].Affinity = nil, time.Hour
		for host := range byte(8) {
			at := netip.AddrFrom4([4]byte{10, 0, 1, 30 + host})
			s.Services[i].Backends = append(s.Services[i].Backends, state.Backend{IP: at, Port: 8080})
			s.Addresses = append(s.Addresses, state.Address{VNI: service.VNI, IP: at, Kind: state.Remote, Node: Ip("192.0.2.2"), MAC: macR})
		}
	}
	return s
}

// opens opens a flow of a pod with the addresses of pod A, and returns its backend.
func opens(t *testing.T, w *world, device int, port uint16) netip.Addr {
	t.Helper()
	verdict, out, _ := run(t, w.objects.AliothFromPod, device, asks(vipB, tcp{Sport: port, Dport: 80, Flags: flagSYN}).bytes())
	if verdict != actRedirect {
		t.Fatalf("verdict is %d", verdict)
	}
	return netip.AddrFrom4([4]byte(out[30:34]))
}

func TestAVPCTakesAffinityFromItsOwnClientsAlone(t *testing.T) {
	w := newScaledWorld(t)
	Must(t, w.Apply(sticky(w)))
	kept := opens(t, w, w.twin, 1000)
	crowd(t, w.opened, vniRed)
	for port := range uint16(50) {
		if got := opens(t, w, w.twin, 1001+port); got != kept {
			t.Fatalf("flow %d of the other VPC goes to %s, the first went to %s", port, got, kept)
		}
	}
	// Another client's row gives way to those of the VPC's own.
	first := opens(t, w, w.podA, 1000)
	for port := range uint16(50) {
		if got := opens(t, w, w.podA, 1001+port); got != first {
			t.Fatalf("flow %d goes to %s, the first went to %s", port, got, first)
		}
	}
}

// stickyVNIs lists the VPCs that have a table.
func stickyVNIs(t *testing.T, d *opened) []uint32 {
	t.Helper()
	ids := map[uint32]uint32{}
	Must(t, bpf.ReadMap(d.objects.AliothAffinities, ids))
	return slices.Sorted(maps.Keys(ids))
}

func TestAVPCHasATableOfAffinitiesWhileAServiceGivesAny(t *testing.T) {
	w := newScaledWorld(t)
	with, without := sticky(w), w.scaledState()
	one := sticky(w)
	for i := range one.Services {
		if one.Services[i].VNI == vniBlue {
			one.Services[i].Affinity = 0
		}
	}
	for _, c := range []struct {
		what string
		now  state.State
		want []uint32
	}{
		{"no service gives any", without, nil},
		{"one of either VPC does", with, []uint32{vniRed, vniBlue}},
		{"one VPC's does no longer", one, []uint32{vniRed}},
		{"neither does", without, nil},
		{"one does again", one, []uint32{vniRed}},
	} {
		Must(t, w.Apply(c.now))
		if got := stickyVNIs(t, w.opened); !slices.Equal(got, c.want) {
			t.Errorf("%s: tables of VNIs %v, want %v", c.what, got, c.want)
		}
	}
	// A table that somebody takes away is made again.
	Must(t, w.objects.AliothAffinities.Delete(uint32(vniRed)))
	if harmed, err := w.Survey(); err != nil || !harmed {
		t.Errorf("harmed: %v, %v", harmed, err)
	}
	w.Recheck()
	Must(t, w.Apply(one))
	if got := stickyVNIs(t, w.opened); !slices.Equal(got, []uint32{vniRed}) {
		t.Errorf("tables of VNIs %v after the repair", got)
	}
}

// A table stays while the daemon is away, and while it looks at everything anew.
func TestAffinityOutlivesTheDaemon(t *testing.T) {
	l, _, _ := scaledTenants(t, vethPair)
	n := l.nodes[0]
	for i, s := range n.state.Services {
		if s.VNI == labVNI1 && s.VIP == Ip(vipB) && s.Proto == state.ProtoTCP {
			n.state.Services[i].Affinity = time.Hour
		}
	}
	l.apply()
	key := bpf.AliothAffinityKey{Vni: labVNI1}
	Must(t, affinitiesOf(t, n.d, labVNI1).Put(key, bpf.AliothAffinity{LastOpened: 1}))
	n.restart(t, func() {})
	n.d.Recheck()
	l.apply()
	var row bpf.AliothAffinity
	if err := affinitiesOf(t, n.d, labVNI1).Lookup(key, &row); err != nil {
		t.Errorf("a row is gone: %v", err)
	}
}

// An earlier version had one table of affinities for all VPCs.
func TestAnUpgradeToTablesOfAffinitiesKeepsFlows(t *testing.T) {
	l, red, _ := scaledTenants(t, vethPair)
	listener := listen(t, red[20].ns, netip.AddrPortFrom(red[20].addrs[0], 8080))
	conn, err := dial(t, red[10].ns, netip.AddrPortFrom(Ip(vipB), 80), 0)
	Must(t, err)
	peer, _ := accept(t, listener)
	n := l.nodes[0]
	pin := filepath.Join(n.cfg.PinDir, bpf.AffinitiesMap)
	n.restart(t, func() {
		spec, err := bpf.LoadAlioth()
		Must(t, err)
		last := spec.Maps[bpf.AffinitiesMap].InnerMap
		last.MaxEntries = 32768
		m, err := ebpf.NewMap(last)
		Must(t, err)
		defer m.Close()
		Must(t, os.Remove(pin))
		Must(t, m.Pin(pin))
	})
	talk(t, conn, peer)
	l.apply()
	now, err := ebpf.LoadPinnedMap(pin, nil)
	Must(t, err)
	defer now.Close()
	if now.Type() != ebpf.HashOfMaps {
		t.Errorf("the map of affinities is %s", now.Type())
	}
}
