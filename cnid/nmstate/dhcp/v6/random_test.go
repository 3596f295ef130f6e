// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v6_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp/dhcptest"
	v6 "github.com/alioth-net/alioth/cnid/nmstate/dhcp/v6"
	"github.com/alioth-net/alioth/test/soak"
)

// world is a client, servers, and a network that loses, doubles, delays and reorders.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	state   v6.State
	held    *dhcp.Lease
	servers []*dhcptest.Six
	flying  []flight
	// promised has, for each address, until when a server has promised it at most.
	promised map[netip.Addr]time.Time
	sent     []time.Time
	perfect  bool
	up       bool
}

type flight struct {
	at      time.Time
	payload []byte
}

// most is how many messages a client may send in a minute, whatever servers and links do.
const most = 130

func (w *world) chance(percent int) bool { return w.random.IntN(100) < percent }

func (w *world) do(event v6.Event) {
	w.t.Helper()
	var actions []v6.Action
	w.state, actions = v6.Step(w.state, event, w.now, w.random.Uint64())
	for _, action := range actions {
		switch action := action.(type) {
		case v6.Hold:
			w.hold(action.Lease)
		case v6.Send:
			w.send(action.Message)
		}
	}
	if w.held != w.state.Lease {
		w.t.Fatal("the machine has another lease than it told")
	}
	if w.held != nil && w.held.Expired(w.now) {
		w.t.Fatalf("%s is used after its end at %s", w.held.Address, w.held.Expires)
	}
}

func (w *world) hold(lease *dhcp.Lease) {
	w.t.Helper()
	w.held = lease
	if lease == nil {
		return
	}
	until, ok := w.promised[lease.Address.Addr()]
	if !ok || lease.Expires.After(until) {
		w.t.Fatalf("%s is used until %s; it was promised until %s", lease.Address, lease.Expires, until)
	}
}

func (w *world) send(m v6.Message) {
	w.t.Helper()
	w.sent = slices.DeleteFunc(append(w.sent, w.now), func(at time.Time) bool { return w.now.Sub(at) >= time.Minute })
	if len(w.sent) > most {
		w.t.Fatalf("%d messages in a minute", len(w.sent))
	}
	for _, server := range w.servers {
		if !w.perfect && w.chance(25) {
			continue
		}
		answer := server.Answer(id.Encode(m))
		if answer == nil {
			continue
		}
		if a, err := id.Decode(answer, router); err == nil && a.Kind == v6.Reply && a.Valid > 0 {
			if until := w.now.Add(a.Valid); until.After(w.promised[a.Lease.Address.Addr()]) {
				w.promised[a.Lease.Address.Addr()] = until
			}
		}
		copies := 1
		if !w.perfect {
			copies = w.random.IntN(4)
		}
		for range copies {
			delay := time.Duration(w.random.Int64N(int64(2 * time.Second)))
			if !w.perfect && w.chance(20) {
				delay *= 20
			}
			w.flying = append(w.flying, flight{w.now.Add(delay), answer})
		}
	}
}

func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for {
		at, packet := w.state.Due(), -1
		for i, f := range w.flying {
			if at.IsZero() || f.at.Before(at) {
				at, packet = f.at, i
			}
		}
		if at.IsZero() || at.After(end) {
			w.now = end
			return
		}
		if at.After(w.now) {
			w.now = at
		}
		if packet < 0 {
			w.do(v6.Tick{})
			continue
		}
		payload := w.flying[packet].payload
		w.flying = slices.Delete(w.flying, packet, packet+1)
		if answer, err := id.Decode(payload, router); err == nil && w.up {
			w.do(v6.Received{Answer: answer})
		}
	}
}

func (w *world) disturb() {
	server := w.servers[w.random.IntN(len(w.servers))]
	switch w.random.IntN(7) {
	case 0:
		server.SetAway(w.chance(60))
	case 1:
		server.SetStatus([]iana.StatusCode{
			iana.StatusSuccess, iana.StatusSuccess, iana.StatusUnspecFail, iana.StatusNoAddrsAvail, iana.StatusNoBinding, iana.StatusNotOnLink,
		}[w.random.IntN(6)])
	case 2:
		w.link(!w.up)
	case 3:
		for range 1 + w.random.IntN(30) {
			w.link(!w.up)
			w.pass(time.Duration(w.random.Int64N(int64(2 * time.Second))))
		}
	case 4: // the process is killed, and reads the file
		lease := w.held
		if lease != nil && lease.Expired(w.now) {
			lease = nil
		}
		w.state, w.held = v6.New(false, lease), lease
		if w.up {
			w.do(v6.LinkUp{})
		}
	case 5:
		if w.held != nil && w.chance(30) {
			w.do(v6.InUse{Address: w.held.Address.Addr()})
		}
	case 6:
		server.Valid = time.Duration(5+w.random.IntN(3600)) * time.Second
		server.Preferred = time.Duration(w.random.IntN(3600)) * time.Second
		server.T1, server.T2 = time.Duration(w.random.IntN(4000))*time.Second, time.Duration(w.random.IntN(4000))*time.Second
		server.Preference = uint8(w.random.IntN(256))
	}
}

func (w *world) link(up bool) {
	w.t.Helper()
	if w.up = up; up {
		w.do(v6.LinkUp{})
	} else {
		w.do(v6.LinkDown{})
	}
}

// TestDHCPClient_RandomMessages_OnlyPromisedUsed is the same as the one of package v4.
func TestDHCPClient_RandomMessages_OnlyPromisedUsed(t *testing.T) {
	for seed := range uint64(soak.Or(t, 10000, 300)) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := &world{t: t, random: rand.New(rand.NewPCG(seed, 6)), now: begin, promised: map[netip.Addr]time.Time{}}
			for i := range byte(2) {
				server := &dhcptest.Six{ID: []byte{0, 3, 0, 1, i}, Valid: time.Minute, Preferred: time.Minute}
				for n := range byte(100) {
					server.Pool = append(server.Pool, netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 14: i, 15: n + 1}))
				}
				w.servers = append(w.servers, server)
			}
			for range 60 {
				w.disturb()
				w.pass(time.Duration(w.random.Int64N(int64(time.Minute))))
			}
			w.perfect = true
			for _, server := range w.servers {
				server.SetAway(false)
				server.SetStatus(iana.StatusSuccess)
				server.Valid, server.Preferred, server.T1, server.T2 = time.Hour, time.Hour, 0, 0
			}
			w.link(true)
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
