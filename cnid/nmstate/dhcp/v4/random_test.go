// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v4_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp/dhcptest"
	v4 "github.com/alioth-net/alioth/cnid/nmstate/dhcp/v4"
	"github.com/alioth-net/alioth/test/soak"
)

// world is a client, servers, and a network that loses, doubles, delays and reorders.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	state   v4.State
	held    *dhcp.Lease
	servers []*dhcptest.Four
	// flying are the answers under way.
	flying []flight
	// acknowledged has, for each address, until when a server has promised it at most.
	acknowledged map[netip.Addr]time.Time
	// sent are the times of the messages of the last minute.
	sent []time.Time
	// perfect networks lose nothing.
	perfect bool
	// up tells whether the link has a carrier.
	up bool
}

type flight struct {
	at      time.Time
	payload []byte
}

// most is how many messages a client may send in a minute, whatever servers and links do.
const most = 130

func (w *world) chance(percent int) bool { return w.random.IntN(100) < percent }

func (w *world) do(event v4.Event) {
	w.t.Helper()
	var actions []v4.Action
	w.state, actions = v4.Step(w.state, event, w.now, w.random.Uint64())
	for _, action := range actions {
		switch action := action.(type) {
		case v4.Hold:
			w.hold(action.Lease)
		case v4.Send:
			w.send(action.Message)
		}
	}
	if w.held != w.state.Lease {
		w.t.Fatalf("the machine has another lease than it told")
	}
	if w.held != nil && w.held.Expired(w.now) {
		w.t.Fatalf("%s is used after its end at %s", w.held.Address, w.held.Expires)
	}
}

// hold checks that a lease in use was promised for as long as that.
func (w *world) hold(lease *dhcp.Lease) {
	w.held = lease
	if lease == nil {
		return
	}
	until, ok := w.acknowledged[lease.Address.Addr()]
	if !ok {
		w.t.Fatalf("%s is used without an acknowledgement", lease.Address)
	}
	if lease.Expires.After(until) {
		w.t.Fatalf("%s is used until %s; it was promised until %s", lease.Address, lease.Expires, until)
	}
}

func (w *world) send(m v4.Message) {
	w.sent = slices.DeleteFunc(append(w.sent, w.now), func(at time.Time) bool { return w.now.Sub(at) >= time.Minute })
	if len(w.sent) > most {
		w.t.Fatalf("%d messages in a minute", len(w.sent))
	}
	for _, server := range w.servers {
		if m.Unicast.IsValid() && m.Unicast != server.Address || !w.perfect && w.chance(25) {
			continue
		}
		answer := server.Answer(id.Encode(m))
		if answer == nil {
			continue
		}
		if a, err := id.Decode(answer); err == nil && a.Kind == v4.ACK && a.Unusable == nil {
			// The promise begins when the server sends it, which is when the client has asked.
			until := w.now.Add(a.Time)
			if until.After(w.acknowledged[a.Lease.Address.Addr()]) {
				w.acknowledged[a.Lease.Address.Addr()] = until
			}
		}
		w.fly(answer)
	}
}

func (w *world) fly(answer []byte) {
	if w.perfect {
		w.flying = append(w.flying, flight{w.now.Add(time.Millisecond), answer})
		return
	}
	for range w.random.IntN(4) { // lost, alone, doubled, tripled
		delay := time.Duration(w.random.Int64N(int64(time.Second)))
		if w.chance(10) {
			delay *= 20
		}
		w.flying = append(w.flying, flight{w.now.Add(delay), answer})
	}
}

// next returns what happens next by itself: a packet, or the machine's time.
func (w *world) next() (at time.Time, packet int) {
	at, packet = w.state.Due(), -1
	for i, f := range w.flying {
		if at.IsZero() || f.at.Before(at) {
			at, packet = f.at, i
		}
	}
	return at, packet
}

func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for {
		at, packet := w.next()
		if at.IsZero() || at.After(end) {
			w.now = end
			return
		}
		if at.After(w.now) {
			w.now = at
		}
		if packet < 0 {
			w.do(v4.Tick{})
			continue
		}
		payload := w.flying[packet].payload
		w.flying = slices.Delete(w.flying, packet, packet+1)
		if answer, err := id.Decode(payload); err == nil && w.up {
			w.do(v4.Received{Answer: answer})
		}
	}
}

// disturb does something that servers, cables, other hosts and the node's administrator do.
func (w *world) disturb() {
	server := w.servers[w.random.IntN(len(w.servers))]
	switch w.random.IntN(9) {
	case 0:
		server.SetAway(w.chance(60))
	case 1:
		server.SetRefuses(w.chance(40))
	case 2:
		server.Forget()
	case 3:
		w.link(false)
	case 4:
		w.link(true)
	case 5:
		for range 1 + w.random.IntN(30) {
			w.link(!w.up)
			w.pass(time.Duration(w.random.Int64N(int64(2 * time.Second))))
		}
	case 6: // the process is killed, and reads the file
		lease := w.held
		if lease != nil && lease.Expired(w.now) {
			lease = nil
		}
		w.state, w.held = v4.New(lease), lease
		if w.up {
			w.do(v4.LinkUp{})
		}
	case 7:
		w.do(v4.InUse{Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + w.random.IntN(20))}), By: "somebody"})
	case 8:
		server.Time = time.Duration(5+w.random.IntN(3600)) * time.Second
		server.T1 = time.Duration(w.random.IntN(4000)) * time.Second
		server.T2 = time.Duration(w.random.IntN(4000)) * time.Second
	}
}

func (w *world) link(up bool) {
	if w.up = up; up {
		w.do(v4.LinkUp{})
	} else {
		w.do(v4.LinkDown{})
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), now: begin, acknowledged: map[netip.Addr]time.Time{}}
	for i := range 2 {
		server := &dhcptest.Four{Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i)}), Time: time.Minute}
		for n := range 100 {
			server.Pool = append(server.Pool, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + 100*i + n)}), 24))
		}
		w.servers = append(w.servers, server)
	}
	return w
}

// TestDHCPClient_RandomMessages_OnlyPromisedUsed plays clients in networks where everything goes
// wrong. A client never uses an address without an acknowledgement or for longer, never sends
// much, and gets a lease once the network is well again.
func TestDHCPClient_RandomMessages_OnlyPromisedUsed(t *testing.T) {
	for seed := range uint64(soak.Or(t, 10000, 300)) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 60 {
				w.disturb()
				w.pass(time.Duration(w.random.Int64N(int64(time.Minute))))
			}
			w.mend()
			w.pass(20 * time.Minute)
			if w.held == nil { // a server that had forgotten the lease has just refused it
				w.pass(3 * time.Minute)
			}
			if w.held == nil {
				t.Fatalf("the network is well, and the client is %s: %s", w.state.Phase, w.state.Problem.Text)
			}
		})
	}
}

func (w *world) mend() {
	w.perfect = true
	for _, server := range w.servers {
		server.SetAway(false)
		server.SetRefuses(false)
		server.Time, server.T1, server.T2 = time.Hour, 0, 0
	}
	w.link(true)
}
