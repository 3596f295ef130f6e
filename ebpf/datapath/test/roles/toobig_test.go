// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// bouncer returns a world whose node is a bouncer of the red subnet, and whose path to other
// nodes carries inner packets of 1300 bytes. 10.0.1.20 is on the first other node, and
// 10.0.1.30 on the second.
func bouncer(t *testing.T, change func(*state.State)) *bench {
	t.Helper()
	w := world.New(t, world.OnUnderlay(t))
	s := w.State()
	s.Nodes = append(s.Nodes, others[1])
	s.Roles = []state.Role{{Key: state.RoleKey{VNI: world.VNIRed, ID: 1}, Members: others[1:], Here: true, Complete: true}}
	for i := range s.Subnets {
		if s.Subnets[i].VNI == world.VNIRed {
			s.Subnets[i].Role = 1
		}
	}
	for _, ip := range []string{"10.0.1.30", "fd10:0:0:1::30"} {
		s.Addresses = append(s.Addresses, state.Address{VNI: world.VNIRed, IP: wire.IP(ip), Kind: state.Remote, Node: others[1], MAC: world.MacB})
	}
	for i, a := range s.Addresses {
		if a.IP == wire.IP("fd10:0:0:1::20") {
			s.Addresses[i].Node = others[0]
		}
	}
	change(&s)
	bpftest.Must(t, w.Apply(s))
	bpftest.SetMTU(t, w.Config.UnderlayIfindex, 1350)
	return newBench(w, 4096)
}

// large returns a packet of 1400 bytes between two pods.
func large(from, to string) wire.Frame {
	f := wire.Frame{
		EthDst: world.MacR,
		EthSrc: world.ClassToBouncer,
		Src:    wire.IP(from),
		Dst:    wire.IP(to),
		Whole:  true,
		L4:     wire.UDP{Sport: 1, Dport: 2, Payload: make([]byte, 1400-28)},
	}
	if f.Src.Is6() {
		f.L4 = wire.UDP{Sport: 1, Dport: 2, Payload: make([]byte, 1400-48)}
	}
	return f
}

// arrive lets a packet arrive from another node.
func (b *bench) arrive(t *testing.T, by netip.Addr, inner []byte) (verdict uint32, out []byte) {
	t.Helper()
	return b.once(t, b.Objects.AliothFromUnderlay, b.Config.UnderlayIfindex, world.Wrapped{
		Eth: world.MacUplink, From: by, To: self, Port: programs.DefaultTunnelPort, Flags: 8, VNI: world.VNIRed, Inner: inner,
	}.Bytes())
}

// about returns the ICMP error of the gateway about a packet, without its Ethernet header.
func about(f wire.Frame, mtu uint16) []byte {
	quoted := f.Bytes()[14:]
	if f.Src.Is6() {
		body := binary.BigEndian.AppendUint32(nil, uint32(mtu))
		return wire.Frame{Src: wire.IP("fd10:0:0:1::1"), Dst: f.Src, L4: wire.ICMP{V6: true, Type: 2, Body: append(body, quoted[:1280-48]...)}}.Bytes()[14:]
	}
	body := binary.BigEndian.AppendUint16([]byte{0, 0}, mtu)
	e := wire.Frame{Src: wire.IP("10.0.1.1"), Dst: f.Src, Whole: true, L4: wire.ICMP{Type: 3, Code: 4, Body: append(body, quoted[:576-28]...)}}.Bytes()
	e[15] = 0xc0
	copy(e[18:20], []byte{0, 0}) // no identification
	copy(e[24:26], []byte{0, 0})
	binary.BigEndian.PutUint16(e[24:], wire.Fold(wire.Sum(0, e[14:34])))
	return e[14:]
}

func TestBouncer_PacketTooBig_SenderToldMTU(t *testing.T) {
	unchanged := func(*state.State) {}
	incomplete := func(s *state.State) {
		s.Roles[0].Complete = false
		s.Addresses = without(without(s.Addresses, wire.IP("10.0.1.20")), wire.IP("fd10:0:0:1::20"))
	}
	divided := func(s *state.State) {
		s.Roles = append(s.Roles, state.Role{Key: state.RoleKey{VNI: world.VNIRed, ID: 2}, Members: others[:1]})
		s.VPCs[0].Role = 2
	}
	for name, c := range map[string]struct {
		change func(*state.State)
		from   [2]string
		class  trial.Hop
		node   netip.Addr
	}{
		"by its row of the sender":                 {unchanged, [2]string{"10.0.1.20", "fd10:0:0:1::20"}, trial.FromBouncer, others[0]},
		"over another bouncer":                     {incomplete, [2]string{"10.0.1.20", "fd10:0:0:1::20"}, trial.ToBouncer, others[1]},
		"over a divider, from an unknown subnet":   {divided, [2]string{"10.0.2.20", "fd10:0:0:2::20"}, trial.ToDivider, others[0]},
		"over another bouncer, from an unknown IP": {unchanged, [2]string{"10.0.1.98", "fd10:0:0:1::98"}, trial.ToBouncer, others[1]},
	} {
		t.Run(name, func(t *testing.T) {
			b := bouncer(t, c.change)
			for i, to := range []string{"10.0.1.30", "fd10:0:0:1::30"} {
				if i == 1 && !bpftest.PopsIPv6(t) {
					continue // the tunnel's device takes it
				}
				// The error is not the sender's packet: it has the same form without the identity.
				for in, out := range map[state.MAC]state.MAC{
					world.ClassToBouncer: world.ClassDirect, world.IdentitySource(4711, world.Unjudged, 3): world.IdentitySource(0, 0, 0),
				} {
					f := large(c.from[i], to)
					f.EthSrc = in
					b.told(t, f, c.node, c.class, world.WithClass(out, uint8(c.class)))
				}
			}
		})
	}
}

// told lets a packet arrive, and finds the error about it on its way to a node.
func (b *bench) told(t *testing.T, f wire.Frame, want netip.Addr, wantClass trial.Hop, source state.MAC) {
	t.Helper()
	verdict, out := b.arrive(t, others[0], f.Bytes())
	if verdict != world.ActRedirect {
		t.Fatalf("%s: verdict %d, counters %v", f.Dst, verdict, bpftest.Counts(t, b.Datapath))
	}
	node, class, inner := hopOf(t, out)
	if node != want || class != wantClass || state.MAC(inner[6:12]) != source {
		t.Errorf("%s: sent to %s %s by %x, want %s %s by %s", f.Dst, node, class, inner[6:12], want, wantClass, source)
	}
	if want := about(f, 1300); !bytes.Equal(inner[14:], want) {
		t.Errorf("%s: the error is\n%x, want\n%x", f.Dst, inner[14:], want)
	}
}

func TestBouncer_ErrorNotAllowed_NobodyTold(t *testing.T) {
	closed := func(s *state.State) { s.Addresses = without(s.Addresses, wire.IP("10.0.1.1")) }
	unknown := func(s *state.State) { s.Subnets[0].Prefix = wire.Prefix("10.0.1.0/25") }
	for name, c := range map[string]struct {
		change func(*state.State)
		from   string
		frame  func(*wire.Frame)
	}{
		"without a gateway":                  {closed, "10.0.1.20", world.Unchanged},
		"outside of the VPC":                 {unknown, "10.9.9.9", world.Unchanged},
		"of no subnet, without dividers":     {unknown, "10.0.1.200", world.Unchanged},
		"a later fragment":                   {func(*state.State) {}, "10.0.1.20", func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 9} }},
		"an ICMP error":                      {func(*state.State) {}, "10.0.1.20", func(f *wire.Frame) { f.L4 = wire.ICMP{Type: 3, Code: 3, Body: make([]byte, 1376)} }},
		"a gateway, which sends nothing":     {func(*state.State) {}, "10.0.1.1", world.Unchanged},
		"an address of another CNI's plugin": {func(*state.State) {}, "10.0.1.66", world.Unchanged},
	} {
		t.Run(name, func(t *testing.T) {
			b := bouncer(t, c.change)
			if verdict, _ := b.arrive(t, others[0], large(c.from, "10.0.1.30").With(c.frame).Bytes()); verdict != world.ActShot {
				t.Errorf("verdict %d, counters %v", verdict, bpftest.Counts(t, b.Datapath))
			}
		})
	}
}

// A node that sends packets that don't fit gets errors at a rate, and others get theirs.
func TestBouncerErrors_NodeFloods_LimitedPerNode(t *testing.T) {
	b := bouncer(t, func(*state.State) {})
	reported := 0
	start := world.Monotonic(t)
	for range 2000 {
		if verdict, _ := b.arrive(t, others[0], large("10.0.1.20", "10.0.1.30").Bytes()); verdict == world.ActRedirect {
			reported++
		}
	}
	if most := 102 + int((world.Monotonic(t) - start).Milliseconds()); reported < 100 || reported > most {
		t.Errorf("%d errors for one node, want 100 to %d", reported, most)
	}
	if verdict, _ := b.arrive(t, others[1], large("10.0.1.20", "10.0.1.30").Bytes()); verdict != world.ActRedirect {
		t.Errorf("verdict %d for another node", verdict)
	}
}

// A packet of an own pod that comes back may be too big for the way to a member.
func TestReturnedPacket_TooBigForRole_Told(t *testing.T) {
	b := bouncer(t, func(s *state.State) {
		s.Roles[0].Here = false
		s.Addresses = without(s.Addresses, destination)
	})
	bpftest.Must(t, b.Cached().Put(state.Cached{VNI: world.VNIRed, IP: destination, Node: others[0], MAC: world.MacB}))
	f := large("10.0.1.10", "10.0.1.20").With(func(f *wire.Frame) { f.EthSrc = world.ClassReturned })
	verdict, out := b.arrive(t, others[0], f.Bytes())
	if verdict != world.ActRedirect || !bytes.Equal(out[14:], about(f, 1300)) {
		t.Errorf("verdict %d, the error is\n%x, want\n%x", verdict, out[14:], about(f, 1300))
	}
	if !bytes.Equal(out[:6], world.MacA[:]) || !bytes.Equal(out[6:12], state.VirtualMAC[:]) {
		t.Errorf("Ethernet addresses are %x", out[:12])
	}
}
