// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// put writes the row of the destination, and returns it as it is read afterwards.
func (b *bench) put(t *testing.T, c state.Cached) {
	t.Helper()
	c.VNI, c.IP, c.MAC = world.VNIRed, destination, world.MacB
	bpftest.Must(t, b.Cached().Put(c))
}

func (b *bench) row(t *testing.T) state.Cached {
	t.Helper()
	rows, err := b.Cached().Rows()
	if bpftest.Must(t, err); len(rows) != 1 {
		t.Fatalf("rows are %+v, want one", rows)
	}
	return rows[0]
}

// caching returns a sender without a held row of the destination.
func caching(t *testing.T) *bench {
	t.Helper()
	b := sender(t, nodes(1))
	s := b.State()
	s.Roles = []state.Role{{Key: state.RoleKey{VNI: world.VNIRed, ID: 1}, Members: nodes(1)}}
	for i := range s.Subnets {
		if s.Subnets[i].VNI == world.VNIRed {
			s.Subnets[i].Role = 1
		}
	}
	s.Addresses = without(s.Addresses, destination)
	s.Nodes = append(s.Nodes, others[1])
	bpftest.Must(t, b.Apply(s))
	return b
}

func without(list []state.Address, ip netip.Addr) (rest []state.Address) {
	for _, a := range list {
		if a.IP != ip {
			rest = append(rest, a)
		}
	}
	return rest
}

// comeBack runs the packet to the destination as a node returns it.
func (b *bench) comeBack(t *testing.T, by netip.Addr) (verdict uint32, out []byte) {
	t.Helper()
	return b.once(t, b.Objects.AliothFromUnderlay, b.Config.UnderlayIfindex, world.Wrapped{
		Eth: world.MacUplink, From: by, To: self, Port: programs.DefaultTunnelPort, Flags: 8, VNI: world.VNIRed, Inner: packet(true, world.ClassReturned).Bytes(),
	}.Bytes())
}

func TestCachedRow_Used_NotedOncePerSecond(t *testing.T) {
	b := caching(t)
	b.put(t, state.Cached{Node: others[0]})
	b.send(t, destination)
	first := b.row(t)
	if now := world.Monotonic(t); first.Used == 0 || first.Used > now {
		t.Errorf("the row was used at %v, now is %v", first.Used, now)
	}
	bpftest.Eventually(t, "the row is used again", func() bool {
		b.send(t, destination)
		next := b.row(t)
		if next.Used != first.Used && next.Used-first.Used < time.Second {
			t.Fatalf("used at %v, and again at %v", first.Used, next.Used)
		}
		return next.Used > first.Used
	})
	b.put(t, state.Cached{Node: others[0], Gone: true, Until: world.Monotonic(t) + time.Hour})
	if b.send(t, destination); b.row(t).Used != 0 {
		t.Error("a row that is gone was used")
	}
}

func TestCachedRow_Gone_ReturnsAcceptedOneSecond(t *testing.T) {
	b := caching(t)
	b.put(t, state.Cached{Node: others[0]})
	before := world.Monotonic(t)
	if verdict, _ := b.comeBack(t, others[0]); verdict != world.ActRedirect {
		t.Fatalf("verdict %d", verdict)
	}
	row, after := b.row(t), world.Monotonic(t)
	const tick = 20 * time.Millisecond // of the programs' clock
	if !row.Gone || row.Node != others[0] || row.Until < before+time.Second-tick || row.Until > after+time.Second {
		t.Errorf("the row is %+v, between %v and %v", row, before, after)
	}
	if verdict, _ := b.comeBack(t, others[0]); verdict != world.ActRedirect || b.row(t) != row {
		t.Errorf("another packet under way: verdict %d, row %+v", verdict, b.row(t))
	}
	bpftest.Eventually(t, "the row has ended", func() bool {
		verdict, _ := b.comeBack(t, others[0])
		return verdict == world.ActShot
	})
	if now := world.Monotonic(t); now < row.Until {
		t.Errorf("the row ended at %v, before %v", now, row.Until)
	}
	if bpftest.Counts(t, b.Datapath)["from_tunnel/returned_foreign"] != 1 {
		t.Errorf("counters are %v", bpftest.Counts(t, b.Datapath))
	}
}

// The former node of a row may return packets for a second, and the new row stays.
func TestCachedRow_NodeBefore_AcceptedUntilItsEnd(t *testing.T) {
	b := caching(t)
	for name, c := range map[string]struct {
		until   time.Duration
		gone    bool
		verdict uint32
	}{
		"in its second":                         {time.Hour, false, world.ActRedirect},
		"later":                                 {-time.Minute, false, world.ActShot},
		"in its second, of a row that is gone":  {time.Hour, true, world.ActRedirect},
		"later, of a row that has ended itself": {-time.Minute, true, world.ActShot},
	} {
		b.put(t, state.Cached{Node: others[1], Before: others[0], Until: world.Monotonic(t) + c.until, Gone: c.gone})
		row := b.row(t)
		if verdict, _ := b.comeBack(t, others[0]); verdict != c.verdict {
			t.Errorf("%s: verdict %d, want %d", name, verdict, c.verdict)
		}
		if b.row(t) != row {
			t.Errorf("%s: the row was %+v and is %+v", name, row, b.row(t))
		}
	}
}

// A row that goes gets a new end. The node before, whose time is over, must not get it too.
func TestCachedRow_Ends_NodeBeforeNotExtended(t *testing.T) {
	b := caching(t)
	b.put(t, state.Cached{Node: others[1], Before: others[0], Until: world.Monotonic(t) - time.Minute})
	if verdict, _ := b.comeBack(t, others[1]); verdict != world.ActRedirect {
		t.Fatalf("verdict %d", verdict)
	}
	if row := b.row(t); !row.Gone || row.Before.IsValid() {
		t.Errorf("the row is %+v", row)
	}
	if verdict, _ := b.comeBack(t, others[0]); verdict != world.ActShot {
		t.Errorf("verdict %d for a node to which nothing was sent", verdict)
	}
}

// No State has cached rows: neither a new one nor a new daemon touches them, also where the
// VPC has left, and the daemon can delete those.
func TestCachedRows_NewStateOrDaemon_Kept(t *testing.T) {
	b := caching(t)
	b.put(t, state.Cached{Node: others[0], Before: others[1], Used: 5, Until: 7})
	row := b.row(t)
	b.Recheck()
	bpftest.Must(t, b.Apply(state.State{}))
	if got := b.row(t); got != row {
		t.Errorf("the row was %+v and is %+v", row, got)
	}
	again, err := bpftest.OpenOnce(t, b.Config)
	bpftest.Must(t, err)
	defer again.Close()
	rows, err := again.Cached().Rows()
	if bpftest.Must(t, err); len(rows) != 1 || rows[0] != row {
		t.Errorf("after a restart rows are %+v, want %+v", rows, row)
	}
	bpftest.Must(t, again.Cached().Delete(row.VNI, row.IP))
	bpftest.Must(t, again.Cached().Delete(row.VNI, row.IP))
	if rows, err := b.Cached().Rows(); err != nil || len(rows) != 0 {
		t.Errorf("rows are %+v, %v", rows, err)
	}
}
