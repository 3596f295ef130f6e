// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
	"github.com/alioth-net/alioth/test/soak"
)

// gone returns the end of a row that is gone, which no test lives to see.
func gone(t *testing.T, c tables) time.Duration {
	t.Helper()
	if !c.gone {
		return 0
	}
	return world.Monotonic(t) + time.Hour
}

// outerLen is the length of the outer headers without the outer Ethernet header.
const outerLen = 50

// packet returns the packet that all tests send, from pod A's address or from a stranger's
// address.
func packet(local bool, class state.MAC) wire.Frame {
	f := wire.Frame{
		EthDst: world.MacR,
		EthSrc: class,
		Src:    wire.IP("10.0.1.77"),
		Dst:    destination,
		L4:     wire.UDP{Sport: 1000, Dport: 80, Payload: []byte("payload")},
	}
	if local {
		f.Src = source
	}
	return f
}

func classMAC(class trial.Hop) state.MAC { return world.WithClass(world.ClassDirect, uint8(class)) }

// bench runs packets through the programs of a world, and counts as they do.
type bench struct {
	*world.World
	counts map[uint32]uint64
	out    []byte
	// origin and own are the direct sources of packets of other nodes and of pod A.
	origin, own state.MAC
}

// forms are the forms of inner Ethernet sources on the node's network: all nodes send the first,
// all send the second, and half of them each, as while the operator switches the nodes.
var forms = []struct{ origin, own state.MAC }{
	{world.ClassDirect, world.ClassDirect},
	{world.IdentitySource(0x070002, world.Unjudged, 0), world.IdentitySource(1<<24-1, 0, 0)},
	{world.ClassDirect, world.IdentitySource(4711, 0, 0)},
	{world.IdentitySource(4711, 0, 0), world.ClassDirect},
}

// newBench returns a bench whose nodes send the first form.
func newBench(w *world.World, room int) *bench {
	return &bench{w, map[uint32]uint64{}, make([]byte, room), world.ClassDirect, world.ClassDirect}
}

// run sends the packet in the form of its arrival, and returns the verdict and the resulting
// frame.
func (b *bench) run(t *testing.T, vni uint32, a arrival) (verdict uint32, out []byte) {
	t.Helper()
	if a.fromPod {
		f := packet(true, world.MacA)
		f.EthDst = state.VirtualMAC
		return b.once(t, b.Objects.AliothFromPod, b.PodA, f.Bytes())
	}
	return b.once(t, b.Objects.AliothFromUnderlay, b.Config.UnderlayIfindex, world.Wrapped{
		Eth: world.MacUplink, From: a.by.node(), To: self, Port: programs.DefaultTunnelPort, Flags: 8, VNI: vni,
		Inner: packet(a.local, world.WithClass(b.origin, uint8(a.class))).Bytes(),
	}.Bytes())
}

// once runs a program on a frame. The result is valid until the next call.
func (b *bench) once(t *testing.T, p *ebpf.Program, ifindex int, frame []byte) (verdict uint32, out []byte) {
	t.Helper()
	ctx := bpf.Received(ifindex)
	options := ebpf.RunOptions{Data: frame, DataOut: b.out, Context: &ctx}
	verdict, err := p.Run(&options)
	bpftest.Must(t, err)
	return verdict, options.DataOut
}

// hasCounted reports whether a reason has been counted once more since the last call.
func (b *bench) hasCounted(t *testing.T, name string, direction telemetry.Direction) bool {
	t.Helper()
	index := reasons[name]*uint32(bpf.AliothDirectionDIRECTION_LEN) + uint32(direction)
	var perCPU []bpf.AliothCounter
	bpftest.Must(t, b.Objects.AliothCounters.Lookup(index, &perCPU))
	var sum uint64
	for _, c := range perCPU {
		sum += c.Packets
	}
	defer func() { b.counts[index] = sum }()
	return sum == b.counts[index]+1
}

// reasons are the numbers of reasons by their names.
var reasons = func() map[string]uint32 {
	m := map[string]uint32{}
	for r := range telemetry.Reason(bpf.AliothReasonREASON_LEN) {
		m[r.String()] = uint32(r)
	}
	return m
}()

// hopOf takes the outer headers off a packet that a program has sent.
func hopOf(t *testing.T, out []byte) (node netip.Addr, class trial.Hop, inner []byte) {
	t.Helper()
	if len(out) < outerLen+34 {
		t.Fatalf("%d bytes came out, too few for outer headers", len(out))
	}
	if from := netip.AddrFrom4([4]byte(out[26:30])); from != self {
		t.Errorf("the outer source is %s, want this node's own", from)
	}
	inner = out[outerLen:]
	source := state.MAC(inner[6:12])
	class = trial.Hop(world.ClassOf(source))
	if source != world.WithClass(source, uint8(class)) {
		t.Errorf("the inner Ethernet source %s is no class", source)
	}
	return netip.AddrFrom4([4]byte(out[30:34])), class, inner
}

// arrivals returns all ways of arrival of the packet.
func arrivals() []arrival {
	list := []arrival{{fromPod: true}}
	for class := range trial.Hop(5) {
		for _, by := range []place{first, second} {
			for _, local := range []bool{false, true} {
				list = append(list, arrival{class: class, by: by, local: local})
			}
		}
	}
	return list
}

// TestPrograms_EveryTableAndClass_VerdictsAsDesigned runs the programs with every combination of tables, right or wrong, and
// every class from every node: a node does what docs/design/140 says. As each packet that is sent
// on has a higher class than it came with, no combination of nodes sends one more than five
// times.
func TestPrograms_EveryTableAndClass_VerdictsAsDesigned(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	b := newBench(w, 256)
	list := every()
	onto(t, w, list)
	failures := 0
	for i, c := range list {
		for _, form := range forms[:soak.Or(t, len(forms), 2)] {
			b.origin, b.own = form.origin, form.own
			b.enter(t, i, c)
			for _, a := range arrivals() {
				if err := check(t, b, i, c, a); err != nil {
					t.Errorf("%+v: %+v: %+v: %v", form, c, a, err)
					failures++
				}
				if failures > 10 {
					t.Fatal("too many failures")
				}
			}
		}
	}
	t.Logf("%d tables, %d packets each", len(list), len(arrivals()))
}

// check runs one packet, and compares it with the record.
func check(t *testing.T, b *bench, i int, c tables, a arrival) error {
	t.Helper()
	want, direction := c.decides(a), telemetry.FromTunnel
	if a.fromPod {
		direction = telemetry.FromPod
	}
	verdict, out := b.run(t, vniOf(i), a)
	if !b.hasCounted(t, want.reason, direction) {
		return fmt.Errorf("it does not count as %s, but all are %v", want.reason, bpftest.Counts(t, b.Datapath))
	}
	if err := checkRow(t, b.World, i, c, a); err != nil {
		return err
	}
	if len(want.nodes) == 0 {
		if (want.reason == "forwarded_local") != (verdict == world.ActRedirect) {
			return fmt.Errorf("verdict %d for %s", verdict, want.reason)
		}
		return nil
	}
	if verdict != world.ActRedirect {
		return fmt.Errorf("verdict %d, want a redirect", verdict)
	}
	if want.class == returned || want.nodes[0] == self {
		return nil // by the tunnel's device, see TestReturnedPacket_AnyContent_EqualsReceived in verdicts
	}
	node, class, inner := hopOf(t, out)
	if class != want.class || !slices.Contains(want.nodes, node) {
		return fmt.Errorf("sent to %s %s, want one of %v %s", node, class, want.nodes, want.class)
	}
	if source := b.sourceOf(a, class); source != state.MAC(inner[6:12]) {
		return fmt.Errorf("the inner Ethernet source is %x, want %s", inner[6:12], source)
	}
	if !a.fromPod && class <= a.class {
		return fmt.Errorf("the class has not risen from %s to %s", a.class, class)
	}
	return nil
}

// sourceOf returns the inner Ethernet source of a packet that is sent on. The node of the pod writes
// it anew, others change the class alone.
func (b *bench) sourceOf(a arrival, class trial.Hop) state.MAC {
	if a.fromPod || a.local {
		return world.WithClass(b.own, uint8(class))
	}
	return world.WithClass(b.origin, uint8(class))
}

// checkRow finds the cached row as it was, unless a returned packet of its own node has
// deleted it; then it puts the row back.
func checkRow(t *testing.T, w *world.World, i int, c tables, a arrival) error {
	t.Helper()
	if c.cached == nowhere {
		return nil
	}
	var row bpf.AliothCached
	bpftest.Must(t, w.Objects.AliothCached.Lookup(bpf.AliothAddressKey{Vni: vniOf(i), Ip: bpf.EncodeAddr(destination)}, &row))
	deletes := a.class == returned && !a.fromPod && a.local && a.by == c.cached && c.held != here
	if is := row.State == bpf.AliothCachedStateCACHED_GONE; is != (c.gone || deletes) {
		return fmt.Errorf("the row is gone: %t, was gone: %t", is, c.gone)
	}
	if deletes {
		putCached(t, w, i, c)
	}
	return nil
}
