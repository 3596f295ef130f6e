// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/cached"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// reader reads the misses that are there.
type reader struct {
	*cached.Misses
	ring *ringbuf.Reader
}

func readMisses(t *testing.T, b *bench) reader {
	t.Helper()
	misses, err := b.Misses()
	bpftest.Must(t, err)
	t.Cleanup(func() { misses.Close() })
	ring, err := ringbuf.NewReader(b.Objects.AliothMisses)
	bpftest.Must(t, err)
	t.Cleanup(func() { ring.Close() })
	return reader{misses, ring}
}

// told returns the misses that the programs have reported since the last call.
func (r reader) message(t *testing.T) (list []state.Miss) {
	t.Helper()
	for r.ring.AvailableBytes() > 0 {
		miss, err := r.Read()
		bpftest.Must(t, err)
		list = append(list, miss)
	}
	return list
}

// send sends a packet of pod A to an address.
func (b *bench) send(t *testing.T, to netip.Addr) (verdict uint32, out []byte) {
	t.Helper()
	f := world.FromA(func(f *wire.Frame) { f.Dst = to })
	if to.Is6() {
		f = world.FromA6(func(f *wire.Frame) { f.Dst = to })
	}
	return b.once(t, b.Objects.AliothFromPod, b.PodA, f.Bytes())
}

func TestMiss_SameAddress_AskedOncePerSecond(t *testing.T) {
	b := sender(t, nodes(2))
	r := readMisses(t, b)
	for _, to := range []string{"10.0.1.99", "fd10:0:0:1::99"} {
		for range 3 {
			b.send(t, wire.IP(to))
		}
		want := state.Miss{VNI: world.VNIRed, IP: wire.IP(to), Ifindex: b.PodA}
		if got := r.message(t); len(got) != 1 || got[0] != want {
			t.Errorf("misses are %v, want %v once", got, want)
		}
	}
	bpftest.Eventually(t, "the address is asked for again", func() bool {
		b.send(t, wire.IP("10.0.1.99"))
		return len(r.message(t)) == 1
	})
}

// A lookup may find an address without a member that knows it.
func TestMiss_NoMember_Asked(t *testing.T) {
	b := sender(t, nil)
	r := readMisses(t, b)
	if verdict, _ := b.send(t, wire.IP("10.0.1.99")); verdict != world.ActShot || bpftest.Counts(t, b.Datapath)["from_pod/no_member"] != 1 {
		t.Errorf("verdict %d, counters %v", verdict, bpftest.Counts(t, b.Datapath))
	}
	if got := r.message(t); len(got) != 1 {
		t.Errorf("misses are %v, want one", got)
	}
}

func TestMiss_AddressOfNoRole_NotAsked(t *testing.T) {
	b := sender(t, nodes(2))
	r := readMisses(t, b)
	for _, to := range []string{"10.0.1.11", "10.0.1.20", "10.0.1.66", "10.0.1.1", "10.0.9.9", "198.51.100.7"} {
		b.send(t, wire.IP(to))
	}
	if got := r.message(t); len(got) != 0 {
		t.Errorf("misses are %v", got)
	}
}

// Trials ask for nothing, and change no row.
func TestTrial_Miss_NothingAskedOrChanged(t *testing.T) {
	b := sender(t, nodes(1))
	r := readMisses(t, b)
	row := state.Cached{VNI: world.VNIRed, IP: wire.IP("10.0.1.98"), Node: others[0], MAC: world.MacB}
	bpftest.Must(t, b.Cached().Put(row))
	tried := b.Trial(t)
	for to, want := range map[string]struct {
		next netip.Addr
		hop  trial.Hop
	}{
		"10.0.1.20": {others[0], trial.ByRow}, "10.0.1.98": {others[0], trial.ByRow}, "10.0.1.99": {nodes(1)[0], trial.ToBouncer},
	} {
		f := world.FromA(func(f *wire.Frame) { f.Dst = wire.IP(to) })
		outcome, err := tried.FromPod(b.PodA, f.Bytes())
		if bpftest.Must(t, err); outcome.Next != want.next || outcome.Hop != want.hop || len(outcome.Frame) != len(f.Bytes()) {
			t.Errorf("%s: outcome is %+v, want node %s %s", to, outcome, want.next, want.hop)
		}
	}
	back := packet(true, world.ClassReturned)
	back.Dst = row.IP
	if outcome, err := tried.FromTunnel(world.VNIRed, others[0], back.Bytes()); err != nil || outcome.Next != nodes(1)[0] {
		t.Errorf("outcome is %+v, %v", outcome, err)
	}
	rows, err := b.Cached().Rows()
	if bpftest.Must(t, err); len(rows) != 1 || rows[0] != row {
		t.Errorf("rows are %+v, want %+v", rows, row)
	}
	if got := r.message(t); len(got) != 0 {
		t.Errorf("misses are %v", got)
	}
}

// sprayed is the number of addresses that a hostile pod sends to.
const sprayed = 20_000

func TestMisses_TenantSpraysAddresses_LimitedToShare(t *testing.T) {
	b := sender(t, nodes(2))
	bpftest.Must(t, b.Cached().Put(state.Cached{VNI: world.VNIRed, IP: wire.IP("10.0.1.98"), Node: others[0], MAC: world.MacB}))
	r, start, total := readMisses(t, b), world.Monotonic(t), 0
	for i := range sprayed {
		to := wire.IP("fd10:0:0:1::1:0").As16()
		to[12], to[13], to[14], to[15] = byte(i>>24)|1, byte(i>>16), byte(i>>8), byte(i)
		b.send(t, netip.AddrFrom16(to))
		total += len(r.message(t))
	}
	most := 64 + int((world.Monotonic(t)-start)/(time.Second/16)) + 1
	if total < 64 || total > most {
		t.Errorf("%d misses of one interface in %v, want 64 to %d", total, world.Monotonic(t)-start, most)
	}
	// Another pod is not affected, nor is any row.
	f := wire.Frame{EthDst: state.VirtualMAC, EthSrc: world.MacB, Src: wire.IP("10.0.1.11"), Dst: wire.IP("10.0.1.99"), L4: wire.UDP{Sport: 1, Dport: 2}}
	b.once(t, b.Objects.AliothFromPod, b.PodB, f.Bytes())
	if got := r.message(t); len(got) != 1 || got[0].Ifindex != b.PodB {
		t.Errorf("misses of the other pod are %v", got)
	}
	if rows, err := b.Cached().Rows(); err != nil || len(rows) != 1 {
		t.Errorf("rows are %v, %v", rows, err)
	}
}

// Without a reader the ring fills up, and packets go on.
func TestMisses_RingFull_PacketsGoOn(t *testing.T) {
	b := sender(t, nodes(2))
	bpftest.Must(t, b.Objects.AliothMissShare.Put(uint32(b.PodA), uint64(0)))
	for i := range 4096 {
		bpftest.Must(t, b.Objects.AliothMissShare.Delete(uint32(b.PodA)))
		to := wire.IP("10.0.1.0").As4()
		to[3] = byte(100 + i%100)
		bpftest.Must(t, bpf.Empty(b.Objects.AliothMissGate))
		if verdict, _ := b.send(t, netip.AddrFrom4(to)); verdict != world.ActRedirect {
			t.Fatalf("packet %d: verdict %d", i, verdict)
		}
	}
	if len(readMisses(t, b).message(t)) >= 4096 {
		t.Error("the ring did not fill up")
	}
}
