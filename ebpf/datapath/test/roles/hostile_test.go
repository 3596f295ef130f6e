// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/state/statetest"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// targets are addresses of every kind that a node may send about.
var targets = []string{
	"10.0.1.10", "10.0.1.11", "10.0.1.20", "10.0.1.30", "10.0.1.98", "10.0.1.99", "10.0.1.1", "10.0.1.66", "10.0.1.255",
	"10.0.9.9", "198.51.100.7", "192.0.2.1", "192.0.2.3", "224.0.0.1", "169.254.64.10",
}

// forge makes a packet of a node that lies about everything but its own address.
func forge(random *rand.Rand) wire.Frame {
	pick := func() netip.Addr { return wire.IP(targets[random.IntN(len(targets))]) }
	f := wire.Frame{EthDst: world.MacR, EthSrc: classMAC(trial.Hop(random.IntN(6))), Src: pick(), Dst: pick(), Whole: random.IntN(2) == 0}
	if random.IntN(2) == 0 {
		f.EthSrc = world.IdentitySource(random.Uint32N(1<<24), uint8(random.IntN(16))<<4, uint8(random.IntN(16)))
	}
	f.L4 = wire.UDP{Sport: uint16(random.IntN(1 << 16)), Dport: 80, Payload: make([]byte, random.IntN(1422))}
	return f
}

// A known node sends any packets, of every class. It gets one packet out for one in, none that is
// longer, and none as from a pod of this node; and it deletes rows to itself alone.
func TestNode_Hostile_GainsNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for name, change := range map[string]func(*state.State){
		"a bouncer": func(*state.State) {},
		"a sender":  func(s *state.State) { s.Roles[0].Here = false; s.Addresses = without(s.Addresses, destination) },
	} {
		t.Run(name, func(t *testing.T) {
			b := bouncer(t, change)
			mine := cachedRow("10.0.1.20", others[0])
			foreign := []state.Cached{cachedRow("10.0.1.98", others[1]), cachedRow("10.0.1.99", others[1])}
			for _, row := range append(slices.Clone(foreign), mine) {
				bpftest.Must(t, b.Cached().Put(row))
			}
			for range 3_000 {
				b.suffer(t, forge(random))
			}
			rows, err := b.Cached().Rows()
			bpftest.Must(t, err)
			rows = slices.DeleteFunc(rows, func(r state.Cached) bool { return r.Node == others[0] })
			if d := cmp.Diff(foreign, rows, statetest.SameAddr); d != "" {
				t.Errorf("rows that do not lead to the liar (-want +got):\n%s", d)
			}
		})
	}
}

func cachedRow(ip string, node netip.Addr) state.Cached {
	return state.Cached{VNI: world.VNIRed, IP: wire.IP(ip), Node: node, MAC: world.MacB}
}

// suffer takes a packet of the first other node.
func (b *bench) suffer(t *testing.T, f wire.Frame) {
	t.Helper()
	in := world.Wrapped{
		Eth: world.MacUplink, From: others[0], To: self, Port: programs.DefaultTunnelPort, Flags: 8, VNI: world.VNIRed, Inner: f.Bytes(),
	}.Bytes()
	verdict, out := b.once(t, b.Objects.AliothFromUnderlay, b.Config.UnderlayIfindex, in)
	if verdict != world.ActRedirect {
		return
	}
	if len(out) > len(in) {
		t.Fatalf("%d bytes in, %d out: %+v", len(in), len(out), f)
	}
	local := []netip.Addr{wire.IP("10.0.1.10"), wire.IP("10.0.1.11")}
	if delivered := b.hasCounted(t, "forwarded_local", telemetry.FromTunnel); delivered && (slices.Contains(local, f.Src) || world.ClassOf(f.EthSrc) == world.ClassOfReturned) {
		t.Fatalf("delivered as from a pod of this node, or returned: %+v", f)
	}
}
