// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v4 is a client of DHCP as a state machine (RFC 2131, section 4.4). It is pure: Step
// gets a state, an event, the time and a random number, and returns the next state with what
// has to be done. Sockets and files are elsewhere.
package v4

import (
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// Phase is a state in the sense of RFC 2131.
type Phase uint8

// Phases. Down, Probing and the wait in Rebooting are not named by the RFC.
const (
	// Down: the link has no carrier.
	Down Phase = iota
	// Init: the client waits until it may ask for offers.
	Init
	// Selecting: it has asked for offers.
	Selecting
	// Requesting: it has chosen an offer.
	Requesting
	// Probing: a server has given the address, and the client asks whether somebody has it.
	Probing
	// Rebooting: the client has a lease of before, and asks whether it still counts.
	Rebooting
	// Bound: the client has a lease.
	Bound
	// Renewing: it asks its server to prolong the lease.
	Renewing
	// Rebinding: it asks all servers to.
	Rebinding
)

// String returns the phase as a word.
func (p Phase) String() string {
	return [...]string{"no carrier", "waiting", "selecting", "requesting", "probing", "rebooting", "bound", "renewing", "rebinding"}[p]
}

// State has what a client knows.
type State struct {
	Phase Phase
	// Lease is in use: the caller was told of it by Hold, and of nothing since.
	Lease *dhcp.Lease
	// Problem says why the client lacks a lease, or why the lease is not prolonged.
	Problem dhcp.Problem

	// timer is when the phase goes on by itself; zero if only an event leads on.
	timer time.Time
	// transaction is the number of the last question (xid), began the time of the first one,
	// asked when this question was first sent, and sent the time of the last message at all.
	transaction        uint32
	began, asked, sent time.Time
	// try counts the messages or probes of the phase.
	try int
	// heard tells that a server has answered the last question, with what can't be used.
	heard bool
	// offered has what the client requests of server.
	offered, server netip.Addr
	// pending was given, and is being probed.
	pending  *dhcp.Lease
	setbacks dhcp.Setbacks
}

// New returns the state of a client without a carrier. A lease of before is in use again until
// it ends, even if no server confirms it.
func New(lease *dhcp.Lease) State { return State{Phase: Down, Lease: lease} }

// Due returns when the machine needs a Tick; zero if never.
func (s State) Due() time.Time { return dhcp.Earlier(s.timer, s.Lease) }

// Event describes what happened.
type Event interface{ isEvent() }

// Events.
type (
	// LinkUp tells that the link has a carrier.
	LinkUp struct{}
	// LinkDown tells that it has none.
	LinkDown struct{}
	// Tick tells that the time of Due has come. An early Tick does nothing.
	Tick struct{}
	// Received tells that a server has answered.
	Received struct{ Answer }
	// InUse tells that somebody else has an address, by a packet of ARP.
	InUse struct {
		Address netip.Addr
		By      string
	}
	// Stop tells that the client is not wanted any more.
	Stop struct{}
)

func (LinkUp) isEvent()   {}
func (LinkDown) isEvent() {}
func (Tick) isEvent()     {}
func (Received) isEvent() {}
func (InUse) isEvent()    {}
func (Stop) isEvent()     {}

// Action describes what has to be done, in the order of the list.
type Action interface{ isAction() }

// Actions.
type (
	// Send sends a message.
	Send struct{ Message }
	// Probe asks by ARP who has an address, without a claim to it (RFC 5227).
	Probe struct{ Address netip.Addr }
	// Announce tells by ARP that the address is the client's.
	Announce struct{ Address netip.Addr }
	// Hold says which lease is in use from now on. Nil: none.
	Hold struct{ Lease *dhcp.Lease }
)

func (Send) isAction()     {}
func (Probe) isAction()    {}
func (Announce) isAction() {}
func (Hold) isAction()     {}
