// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v6_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp/dhcptest"
	v6 "github.com/alioth-net/alioth/cnid/nmstate/dhcp/v6"
)

var (
	id     = v6.Identity{DUID: []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 1}, IAID: [4]byte{1, 2, 3, 4}, Hostname: "node-1"}
	begin  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	router = netip.MustParseAddr("fe80::1")
	first  = netip.MustParseAddr("2001:db8::10")
	second = netip.MustParseAddr("2001:db8::11")
)

// play is a client and its server in virtual time.
type play struct {
	t        *testing.T
	state    v6.State
	server   *dhcptest.Six
	now      time.Time
	random   uint64
	held     *dhcp.Lease
	messages []v6.Message
}

func newPlay(t *testing.T, stateless bool) *play {
	t.Helper()
	return &play{t: t, now: begin, random: 0x123456789abcdef0, state: v6.New(stateless, nil), server: &dhcptest.Six{
		ID: []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 9}, Pool: []netip.Addr{first, second},
		Valid: 2 * time.Hour, Preferred: time.Hour, DNS: []netip.Addr{netip.MustParseAddr("2001:db8::53")},
	}}
}

func (p *play) do(event v6.Event) {
	p.t.Helper()
	p.random = p.random*6364136223846793005 + 1442695040888963407
	var actions []v6.Action
	p.state, actions = v6.Step(p.state, event, p.now, p.random)
	for _, action := range actions {
		switch action := action.(type) {
		case v6.Hold:
			p.held = action.Lease
		case v6.Send:
			p.messages = append(p.messages, action.Message)
			if payload := p.server.Answer(id.Encode(action.Message)); payload != nil {
				answer, err := id.Decode(payload, router)
				if err != nil {
					p.t.Fatal(err)
				}
				p.do(v6.Received{Answer: answer})
			}
		}
	}
	if p.held != nil && p.held.Expired(p.now) {
		p.t.Fatalf("%s is used after %s, at %s", p.held.Address, p.held.Expires, p.now)
	}
}

func (p *play) pass(d time.Duration) {
	p.t.Helper()
	end := p.now.Add(d)
	for {
		due := p.state.Due()
		if due.IsZero() || due.After(end) {
			p.now = end
			return
		}
		if due.After(p.now) {
			p.now = due
		}
		p.do(v6.Tick{})
	}
}

func (p *play) want(phase v6.Phase, address netip.Addr) {
	p.t.Helper()
	var got netip.Addr
	if p.held != nil {
		got = p.held.Address.Addr()
	}
	if p.state.Phase != phase || got != address || p.held != p.state.Lease {
		p.t.Fatalf("the client is %s with %v; want %s with %v (problem: %s)", p.state.Phase, got, phase, address, p.state.Problem.Text)
	}
}

func (p *play) last() v6.Message { return p.messages[len(p.messages)-1] }

func (p *play) bound() *play {
	p.t.Helper()
	p.do(v6.LinkUp{})
	p.pass(5 * time.Second)
	p.want(v6.Bound, first)
	return p
}

var none netip.Addr

func TestDHCPClient_Reply_AddressAndNameServersUsed(t *testing.T) {
	p := newPlay(t, false).bound()
	asked := p.server.Asked()
	if len(asked) != 2 || asked[0].Kind != v6.Solicit || asked[1].Kind != v6.Request || asked[1].Address != first {
		t.Errorf("the server was asked %+v", asked)
	}
	if p.held.Address.Bits() != 128 || len(p.held.DNS) != 1 || p.held.Server != router {
		t.Errorf("the lease is %+v", p.held)
	}
	if valid, preferred := p.held.Lifetimes(p.held.Acquired); valid != 7200 || preferred != 3600 {
		t.Errorf("lifetimes %d, %d", valid, preferred)
	}
}

func TestDHCPClient_LeaseAges_RenewedReboundExpired(t *testing.T) {
	p := newPlay(t, false).bound()
	end := p.held.Expires
	p.pass(31 * time.Minute)
	p.want(v6.Bound, first)
	if !p.held.Expires.After(end) || p.last().Kind != v6.Renew {
		t.Errorf("the lease did not become longer; sent %+v", p.last())
	}
	p.server.SetAway(true)
	p.pass(40 * time.Minute)
	p.want(v6.Renewing, first)
	p.pass(20 * time.Minute)
	p.want(v6.Rebinding, first)
	if p.last().ServerID != nil || !strings.Contains(p.state.Problem.Text, "does not answer") {
		t.Errorf("sent %+v, problem %q", p.last(), p.state.Problem.Text)
	}
	p.pass(70 * time.Minute)
	p.want(v6.Soliciting, none)
	p.pass(time.Hour)
	p.server.SetAway(false)
	p.pass(3 * time.Minute)
	p.want(v6.Bound, first)
}

func TestDHCPClient_FormerLease_Confirmed(t *testing.T) {
	lease := newPlay(t, false).bound().held
	for name, c := range map[string]struct {
		change func(*dhcptest.Six)
		phase  v6.Phase
		want   netip.Addr
	}{
		"confirmed":   {func(*dhcptest.Six) {}, v6.Bound, first},
		"silence":     {func(s *dhcptest.Six) { s.SetAway(true) }, v6.Bound, first},
		"not on link": {func(s *dhcptest.Six) { s.SetStatus(iana.StatusNotOnLink) }, v6.Soliciting, none},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, false)
			p.state, p.held = v6.New(false, lease), lease
			c.change(p.server)
			p.want(v6.Down, first)
			p.do(v6.LinkUp{})
			p.pass(20 * time.Second)
			if p.messages[0].Kind != v6.Confirm || p.messages[0].Address != first {
				t.Errorf("asked first by %+v", p.messages[0])
			}
			p.want(c.phase, c.want)
		})
	}
}

func TestDHCPClient_LinkFlaps_LeaseKeptFewMessages(t *testing.T) {
	p := newPlay(t, false).bound()
	sent := len(p.messages)
	for range 20 { // in twelve seconds
		p.do(v6.LinkDown{})
		p.want(v6.Down, first)
		p.pass(50 * time.Millisecond)
		p.do(v6.LinkUp{})
		p.pass(550 * time.Millisecond)
	}
	if n := len(p.messages) - sent; n > 13 {
		t.Errorf("a flapping link sent %d messages in twelve seconds", n)
	}
	p.pass(time.Minute)
	p.want(v6.Bound, first)
}

func TestDHCPClient_AddressConflict_Declined(t *testing.T) {
	p := newPlay(t, false).bound()
	p.do(v6.InUse{Address: second})
	p.want(v6.Bound, first)
	p.do(v6.InUse{Address: first})
	p.want(v6.Init, none)
	if m := p.last(); m.Kind != v6.Decline || m.Address != first {
		t.Errorf("sent %+v", m)
	}
	p.pass(20 * time.Second)
	p.want(v6.Bound, second)
}

func TestDHCPClient_ServerForgotLease_AskedAgain(t *testing.T) {
	p := newPlay(t, false).bound()
	p.server.SetStatus(iana.StatusNoBinding)
	p.pass(30 * time.Minute)
	p.want(v6.Soliciting, none) // the request had the same answer
	p.server.SetStatus(iana.StatusSuccess)
	p.pass(5 * time.Second)
	p.want(v6.Bound, first)
}

func TestDHCPClient_Stateless_NameServersRefreshed(t *testing.T) {
	p := newPlay(t, true)
	p.do(v6.LinkUp{})
	p.pass(5 * time.Second)
	p.want(v6.Informed, none)
	if p.held.HasAddress() || len(p.held.DNS) != 1 {
		t.Errorf("the lease is %+v", p.held)
	}
	p.pass(25 * time.Hour)
	if asked := p.server.Asked(); len(asked) != 2 || asked[1].Kind != v6.Inform {
		t.Errorf("the server was asked %+v", asked)
	}
}

func TestDHCPClient_Disabled_Released(t *testing.T) {
	p := newPlay(t, false).bound()
	p.do(v6.Stop{})
	p.want(v6.Down, none)
	if m := p.last(); m.Kind != v6.Release || m.Address != first {
		t.Errorf("sent %+v", m)
	}
}

func TestDHCPClient_SeveralServers_BestChosen(t *testing.T) {
	p := newPlay(t, false)
	p.server.SetAway(true)
	p.do(v6.LinkUp{})
	p.pass(500 * time.Millisecond)
	for i, preference := range []uint8{3, 9, 5} {
		p.do(v6.Received{Answer: v6.Answer{
			Kind: v6.Advertise, Transaction: p.last().Transaction, Preference: preference, ServerID: []byte{0, 3, preference},
			Lease: dhcp.Lease{Address: netip.PrefixFrom(first, 128)},
		}})
		if p.state.Phase != v6.Soliciting {
			t.Fatalf("after %d advertisements the client is %s", i+1, p.state.Phase)
		}
	}
	p.pass(1200 * time.Millisecond)
	if m := p.last(); m.Kind != v6.Request || m.ServerID[2] != 9 {
		t.Errorf("sent %+v", m)
	}
}

func TestDHCPClient_ServersSilentOrRefusing_MessagesRare(t *testing.T) {
	for name, change := range map[string]func(*dhcptest.Six){
		"silent":     func(s *dhcptest.Six) { s.SetAway(true) },
		"no address": func(s *dhcptest.Six) { s.SetStatus(iana.StatusNoAddrsAvail) },
		"too short":  func(s *dhcptest.Six) { s.Valid, s.Preferred = time.Second, time.Second },
		"T1 of 0":    func(s *dhcptest.Six) { s.Valid, s.Preferred, s.T1, s.T2 = dhcp.MinTime, 1, 0, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, false)
			change(p.server)
			p.do(v6.LinkUp{})
			p.pass(10 * time.Minute)
			if n := len(p.messages); n < 5 || n > 600 || n > 40 && name != "T1 of 0" {
				t.Errorf("%d messages in ten minutes", n)
			}
			if name != "T1 of 0" && p.state.Problem.Text == "" {
				t.Error("there is no problem")
			}
		})
	}
}

func TestDHCPClient_UnusableAnswers_Refused(t *testing.T) {
	for name, change := range map[string]func(*dhcptest.Six){
		"multicast":  func(s *dhcptest.Six) { s.Pool = []netip.Addr{netip.MustParseAddr("ff02::1")} },
		"link-local": func(s *dhcptest.Six) { s.Pool = []netip.Addr{netip.MustParseAddr("fe80::1")} },
		"loopback": func(s *dhcptest.Six) {
			s.Pool = []netip.Addr{netip.IPv6LinkLocalAllNodes(), netip.MustParseAddr("::1")}
		},
		"IPv4":            func(s *dhcptest.Six) { s.Pool = []netip.Addr{netip.MustParseAddr("::ffff:192.0.2.1")} },
		"preferred later": func(s *dhcptest.Six) { s.Preferred = 3 * time.Hour },
		"T1 after T2":     func(s *dhcptest.Six) { s.T1, s.T2 = time.Hour, time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, false)
			change(p.server)
			p.do(v6.LinkUp{})
			p.pass(time.Minute)
			p.want(v6.Soliciting, none)
			if !strings.Contains(p.state.Problem.Text, "the DHCPv6 server fe80::1: the server gives") {
				t.Errorf("problem %q", p.state.Problem.Text)
			}
		})
	}
}

func FuzzAnswers(f *testing.F) {
	server := newPlay(&testing.T{}, false).server
	f.Add(server.Answer(id.Encode(v6.Message{Kind: v6.Request, ServerID: server.ID})))
	f.Add(server.Answer(id.Encode(v6.Message{Kind: v6.Inform})))
	f.Fuzz(func(t *testing.T, payload []byte) {
		a, err := id.Decode(payload, router)
		if err != nil || a.Unusable != nil {
			return
		}
		if len(a.Lease.DNS) > dhcp.MaxDNS || len(a.Lease.Search) > dhcp.MaxSearch {
			t.Errorf("%d servers, %d domains", len(a.Lease.DNS), len(a.Lease.Search))
		}
		if a.Lease.HasAddress() && !a.Lease.Address.Addr().IsGlobalUnicast() {
			t.Errorf("address %s", a.Lease.Address)
		}
		if a.Valid != 0 && (a.Valid < dhcp.MinTime || a.Renew < time.Second || a.Renew >= a.Rebind || a.Rebind > a.Valid) {
			t.Errorf("lifetimes %s, %s, %s", a.Renew, a.Rebind, a.Valid)
		}
	})
}
