// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v6 is a client of DHCPv6 as a state machine (RFC 8415, section 18.2), for one
// address (IA_NA) or for name servers alone. It is pure, as package v4 is.
package v6

import (
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// Phase names the state of a client in its exchange with servers.
type Phase uint8

// Phases.
const (
	// Down: the link has no carrier.
	Down Phase = iota
	// Init: the client waits until it may ask.
	Init
	// Soliciting: it looks for servers.
	Soliciting
	// Requesting: it asks one for an address.
	Requesting
	// Confirming: it asks whether a lease of before fits the link.
	Confirming
	// Bound: it has an address.
	Bound
	// Renewing: it asks its server to prolong the lease.
	Renewing
	// Rebinding: it asks all servers to.
	Rebinding
	// Informing: it asks for name servers alone.
	Informing
	// Informed: it has them.
	Informed
)

// String returns the phase as a word.
func (p Phase) String() string {
	return [...]string{"no carrier", "waiting", "soliciting", "requesting", "confirming", "bound", "renewing", "rebinding", "informing", "informed"}[p]
}

// State has what a client knows.
type State struct {
	Phase Phase
	// Stateless clients ask for name servers alone.
	Stateless bool
	// Lease is in use: the caller was told of it by Hold, and of nothing since.
	Lease *dhcp.Lease
	// Problem says why the client lacks a lease, or why the lease is not prolonged.
	Problem dhcp.Problem

	timer time.Time
	// transaction is the number of the last question, began the time of the first one of the
	// phase, asked when this one was first sent, and sent the time of the last message at all.
	transaction        uint32
	began, asked, sent time.Time
	// try counts the messages of the phase, wait is the time between the last two.
	try  int
	wait time.Duration
	// heard tells that a server has answered the last question, with what can't be used.
	heard bool
	// best is the best advertisement so far, offered the address that the client requests of
	// the server.
	best     *Answer
	offered  netip.Addr
	server   []byte
	setbacks dhcp.Setbacks
}

// New returns the state of a client without a carrier. A lease of before is in use again until
// it ends, even if no server confirms it.
func New(stateless bool, lease *dhcp.Lease) State {
	return State{Phase: Down, Stateless: stateless, Lease: lease}
}

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
	// InUse tells that the kernel has found that somebody else has the address (RFC 4862).
	InUse struct{ Address netip.Addr }
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
	// Hold says which lease is in use from now on. Nil: none.
	Hold struct{ Lease *dhcp.Lease }
)

func (Send) isAction() {}
func (Hold) isAction() {}
