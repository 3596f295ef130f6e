// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v4_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp/dhcptest"
	v4 "github.com/alioth-net/alioth/cnid/nmstate/dhcp/v4"
)

var (
	hardware = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	id       = v4.Identity{Hardware: hardware, ClientID: append([]byte{1}, hardware...), Hostname: "node-1"}
	begin    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// play is a client and its server in virtual time.
type play struct {
	t      *testing.T
	state  v4.State
	server *dhcptest.Four
	now    time.Time
	random uint64
	// held has what the machine told, messages and probes what it sent.
	held     *dhcp.Lease
	messages []v4.Message
	probes   []netip.Addr
	// deaf clients get no answers.
	deaf bool
}

func newPlay(t *testing.T) *play {
	t.Helper()
	return &play{t: t, now: begin, random: 0x123456789abcdef0, server: &dhcptest.Four{
		Address: netip.MustParseAddr("192.0.2.1"), Time: time.Hour,
		Pool: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/24"), netip.MustParsePrefix("192.0.2.11/24")},
	}}
}

func (p *play) do(event v4.Event) {
	p.t.Helper()
	p.random = p.random*6364136223846793005 + 1442695040888963407
	var actions []v4.Action
	p.state, actions = v4.Step(p.state, event, p.now, p.random)
	for _, action := range actions {
		switch action := action.(type) {
		case v4.Hold:
			p.held = action.Lease
		case v4.Probe:
			p.probes = append(p.probes, action.Address)
		case v4.Send:
			p.messages = append(p.messages, action.Message)
			p.answer(p.server.Answer(id.Encode(action.Message)))
		}
	}
	if p.held != nil && p.held.Expired(p.now) {
		p.t.Fatalf("%s is used after %s, at %s", p.held.Address, p.held.Expires, p.now)
	}
}

func (p *play) answer(payload []byte) {
	p.t.Helper()
	if payload == nil || p.deaf {
		return
	}
	answer, err := id.Decode(payload)
	if err != nil {
		p.t.Fatal(err)
	}
	p.do(v4.Received{Answer: answer})
}

// pass lets time pass, with all that is due in it.
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
		p.do(v4.Tick{})
	}
}

func (p *play) want(phase v4.Phase, address string) {
	p.t.Helper()
	got := ""
	if p.held != nil {
		got = p.held.Address.String()
	}
	if p.state.Phase != phase || got != address || p.held != p.state.Lease {
		p.t.Fatalf("the client is %s with %q; want %s with %q (problem: %s)", p.state.Phase, got, phase, address, p.state.Problem.Text)
	}
}

func (p *play) last() v4.Message {
	p.t.Helper()
	if len(p.messages) == 0 {
		p.t.Fatal("the client has sent nothing")
	}
	return p.messages[len(p.messages)-1]
}

func (p *play) bound() *play {
	p.t.Helper()
	p.do(v4.LinkUp{})
	p.pass(5 * time.Second)
	p.want(v4.Bound, "192.0.2.10/24")
	return p
}

func TestDHCPClient_Offer_ProbedThenUsed(t *testing.T) {
	p := newPlay(t)
	p.do(v4.Tick{})
	p.want(v4.Down, "")
	p.do(v4.LinkUp{})
	p.pass(500 * time.Millisecond)
	p.want(v4.Probing, "")
	p.bound()
	if len(p.probes) != 3 || p.probes[0].String() != "192.0.2.10" {
		t.Errorf("probed %v", p.probes)
	}
	asked := p.server.Asked()
	if len(asked) != 2 || asked[0].Kind != v4.Discover || asked[1].Kind != v4.Request || asked[1].Server != p.server.Address || asked[1].Hostname != "node-1" {
		t.Errorf("the server was asked %+v", asked)
	}
}

func TestDHCPClient_LeaseAges_RenewedReboundExpired(t *testing.T) {
	p := newPlay(t).bound()
	first := *p.held
	p.pass(30 * time.Minute)
	if m := p.last(); m.Unicast != p.server.Address || m.Client != first.Address.Addr() || m.Server.IsValid() || m.Requested.IsValid() {
		t.Errorf("the lease is renewed by %+v", m)
	}
	if !p.held.Expires.After(first.Expires) {
		t.Error("the lease did not become longer")
	}
	p.server.SetAway(true)
	p.pass(30 * time.Minute)
	p.want(v4.Renewing, "192.0.2.10/24")
	p.pass(23 * time.Minute)
	p.want(v4.Rebinding, "192.0.2.10/24")
	if m := p.last(); m.Unicast.IsValid() || !strings.Contains(p.state.Problem.Text, "192.0.2.1 does not answer") {
		t.Errorf("the lease is rebound by %+v; problem %q", m, p.state.Problem.Text)
	}
	p.pass(7 * time.Minute)
	p.want(v4.Selecting, "")
	p.pass(time.Hour)
	p.want(v4.Selecting, "")
	p.server.SetAway(false)
	p.pass(2 * time.Minute)
	p.want(v4.Bound, "192.0.2.10/24")
	if p.state.Problem.Text != "" {
		t.Errorf("problem %q", p.state.Problem.Text)
	}
}

func TestDHCPClient_LeaseRefused_GivenUpAtOnce(t *testing.T) {
	p := newPlay(t).bound()
	p.server.Forget()
	p.pass(29 * time.Minute)
	p.want(v4.Bound, "192.0.2.10/24")
	for p.state.Phase == v4.Bound {
		p.pass(100 * time.Millisecond)
	}
	p.want(v4.Init, "")
	if !strings.Contains(p.state.Problem.Text, "refuses the address 192.0.2.10") {
		t.Errorf("problem %q", p.state.Problem.Text)
	}
	p.pass(10 * time.Second)
	p.want(v4.Bound, "192.0.2.11/24")
}

func TestDHCPClient_AddressConflict_Declined(t *testing.T) {
	p := newPlay(t)
	p.do(v4.LinkUp{})
	p.pass(500 * time.Millisecond)
	p.want(v4.Probing, "")
	p.do(v4.InUse{Address: netip.MustParseAddr("192.0.2.99"), By: "elsewhere"})
	p.want(v4.Probing, "")
	p.do(v4.InUse{Address: netip.MustParseAddr("192.0.2.10"), By: "02:00:00:00:00:99"})
	p.want(v4.Init, "")
	if m := p.last(); m.Kind != v4.Decline || m.Requested.String() != "192.0.2.10" || m.Server != p.server.Address {
		t.Errorf("sent %+v", m)
	}
	if !strings.Contains(p.state.Problem.Text, "in use by 02:00:00:00:00:99") {
		t.Errorf("problem %q", p.state.Problem.Text)
	}
	sent := len(p.messages)
	p.pass(9 * time.Second)
	if len(p.messages) != sent {
		t.Error("the client asked again within ten seconds")
	}
	p.pass(10 * time.Second)
	p.want(v4.Bound, "192.0.2.11/24")
}

func TestDHCPClient_FormerLease_UsedAndConfirmed(t *testing.T) {
	old := newPlay(t).bound()
	for name, c := range map[string]struct {
		change func(*play)
		phase  v4.Phase
		want   string
	}{
		"confirmed": {func(*play) {}, v4.Bound, "192.0.2.10/24"},
		"refused":   {func(p *play) { p.server.Forget() }, v4.Bound, "192.0.2.11/24"},
		// Nobody answers: the lease counts until it ends.
		"silence": {func(p *play) { p.server.SetAway(true) }, v4.Bound, "192.0.2.10/24"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t).bound()
			p.state, p.messages, p.probes = v4.New(old.held), nil, nil
			p.held = old.held
			c.change(p)
			p.want(v4.Down, "192.0.2.10/24")
			p.do(v4.LinkUp{})
			p.pass(500 * time.Millisecond)
			p.pass(time.Second)
			if m := p.messages[0]; m.Kind != v4.Request || m.Requested.String() != "192.0.2.10" || m.Server.IsValid() || m.Client.IsValid() {
				t.Errorf("asked first by %+v", m)
			}
			p.pass(2 * time.Minute)
			p.want(c.phase, c.want)
		})
	}
}

func TestDHCPClient_CarrierFlaps_LeaseKept(t *testing.T) {
	p := newPlay(t).bound()
	sent := len(p.messages)
	for range 100 { // in ten seconds
		p.do(v4.LinkDown{})
		p.want(v4.Down, "192.0.2.10/24")
		p.pass(50 * time.Millisecond)
		p.do(v4.LinkUp{})
		p.want(v4.Rebooting, "192.0.2.10/24")
		p.pass(50 * time.Millisecond)
	}
	if n := len(p.messages) - sent; n > 11 {
		t.Errorf("a flapping link sent %d messages in ten seconds", n)
	}
	p.pass(time.Minute)
	p.want(v4.Bound, "192.0.2.10/24")
	p.do(v4.LinkDown{})
	p.pass(time.Hour)
	p.want(v4.Down, "")
}

func TestDHCPClient_SeveralAnswers_OnlyLastTransactionCounts(t *testing.T) {
	other := netip.MustParseAddr("192.0.2.2")
	lease := dhcp.Lease{Address: netip.MustParsePrefix("192.0.2.66/24"), Server: other}
	p := newPlay(t)
	p.deaf = true
	p.do(v4.LinkUp{})
	p.pass(time.Second)
	p.want(v4.Selecting, "")
	right := p.last().Transaction
	for _, a := range []v4.Answer{
		{Kind: v4.Offer, Transaction: right + 1, Server: other, Lease: lease},
		{Kind: v4.ACK, Transaction: right, Server: other, Lease: lease},
		{Kind: v4.NAK, Transaction: right, Server: other},
	} {
		p.do(v4.Received{Answer: a})
		p.want(v4.Selecting, "")
	}
	offer := lease
	offer.Address, offer.Server = netip.MustParsePrefix("192.0.2.10/24"), p.server.Address
	p.do(v4.Received{Answer: v4.Answer{Kind: v4.Offer, Transaction: right, Server: offer.Server, Lease: offer}})
	for _, kind := range []v4.Kind{v4.ACK, v4.NAK} {
		p.do(v4.Received{Answer: v4.Answer{Kind: kind, Transaction: right, Server: other, Lease: lease}}) // of a server that was not chosen
		p.want(v4.Requesting, "")
	}
	p.deaf = false
	p.do(v4.LinkDown{})
	p.bound()
	for _, a := range []v4.Answer{
		{Kind: v4.ACK, Transaction: p.last().Transaction, Server: other, Lease: lease},
		{Kind: v4.NAK, Transaction: p.last().Transaction, Server: p.server.Address},
	} {
		p.do(v4.Received{Answer: a})
		p.want(v4.Bound, "192.0.2.10/24")
	}
	p.deaf = true
	p.pass(31 * time.Minute)
	p.want(v4.Renewing, "192.0.2.10/24")
	for _, a := range []v4.Answer{
		{Kind: v4.NAK, Transaction: p.last().Transaction, Server: other},                          // another server
		{Kind: v4.ACK, Transaction: p.last().Transaction, Server: other, Lease: lease},            // another address too
		{Kind: v4.NAK, Transaction: p.messages[0].Transaction, Server: p.server.Address},          // an old question
		{Kind: v4.Offer, Transaction: p.last().Transaction, Server: other, Lease: lease},          // no offer was asked for
		{Kind: v4.ACK, Transaction: p.last().Transaction, Server: p.server.Address, Lease: lease}, // another address
	} {
		p.do(v4.Received{Answer: a})
		p.want(v4.Renewing, "192.0.2.10/24")
	}
}

func TestDHCPClient_ServerRefusesOwnOffers_RequestsRare(t *testing.T) {
	p := newPlay(t)
	p.server.SetRefuses(true)
	p.do(v4.LinkUp{})
	p.pass(10 * time.Minute)
	if n := len(p.messages); n < 6 || n > 40 {
		t.Errorf("%d messages in ten minutes", n)
	}
}

func TestDHCPClient_Disabled_Released(t *testing.T) {
	p := newPlay(t).bound()
	p.do(v4.Stop{})
	p.want(v4.Down, "")
	if m := p.last(); m.Kind != v4.Release || m.Client.String() != "192.0.2.10" || m.Server != p.server.Address || m.Unicast != p.server.Address {
		t.Errorf("sent %+v", m)
	}
	p.pass(24 * time.Hour)
	if p.last().Kind != v4.Release {
		t.Error("the client goes on")
	}
}

func TestDHCPClient_InfiniteLease_NotRenewed(t *testing.T) {
	p := newPlay(t)
	p.server.Time = (1<<32 - 1) * time.Second
	p.bound()
	sent := len(p.messages)
	p.pass(20 * 365 * 24 * time.Hour)
	p.want(v4.Bound, "192.0.2.10/24")
	if len(p.messages) != sent {
		t.Errorf("sent %+v", p.last())
	}
	if valid, preferred := p.held.Lifetimes(p.now); valid != dhcp.Forever || preferred != dhcp.Forever {
		t.Errorf("lifetimes %d, %d", valid, preferred)
	}
}

func TestDHCPClient_ShortLease_NotTaken(t *testing.T) {
	p := newPlay(t)
	p.server.Time = 9 * time.Second
	p.do(v4.LinkUp{})
	p.pass(time.Minute)
	p.want(v4.Selecting, "")
	if !strings.Contains(p.state.Problem.Text, "the DHCP server 192.0.2.1: the server gives a lease of 9s") {
		t.Errorf("problem %q", p.state.Problem.Text)
	}
}

func TestDHCPClient_LeaseEndsDuringProbe_NotUsed(t *testing.T) {
	p := newPlay(t)
	p.deaf, p.server.Time = true, 10*time.Second
	p.do(v4.LinkUp{})
	p.pass(time.Second)
	lease := dhcp.Lease{Address: netip.MustParsePrefix("192.0.2.10/24"), Server: p.server.Address}
	answer := v4.Answer{
		Kind:        v4.Offer,
		Transaction: p.last().Transaction,
		Server:      p.server.Address,
		Lease:       lease,
		Time:        10 * time.Second,
		Renew:       5 * time.Second,
		Rebind:      8 * time.Second,
	}
	p.do(v4.Received{Answer: answer})
	p.want(v4.Requesting, "")
	p.pass(9900 * time.Millisecond) // the answer to the first request is late
	answer.Kind = v4.ACK
	p.do(v4.Received{Answer: answer})
	p.want(v4.Probing, "")
	p.pass(time.Second)
	if p.state.Phase == v4.Bound {
		t.Error("the lease is in use")
	}
}

func TestDHCPClient_ServersSilent_RequestsBackOff(t *testing.T) {
	p := newPlay(t)
	p.server.SetAway(true)
	p.do(v4.LinkUp{})
	p.pass(time.Hour)
	if n := len(p.messages); n < 50 || n > 75 {
		t.Errorf("%d messages in an hour", n)
	}
	if p.state.Problem.Text != "no DHCP server answers" || p.state.Problem.Since.After(begin.Add(time.Minute)) {
		t.Errorf("problem %+v", p.state.Problem)
	}
	if m := p.last(); m.Kind != v4.Discover || m.Elapsed < 50*time.Minute {
		t.Errorf("sent %+v", m)
	}
}
