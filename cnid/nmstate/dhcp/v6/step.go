// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v6

import (
	"bytes"
	"fmt"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// pace is how often a question is repeated (RFC 8415, section 7.6): the first wait, the
// longest one, and how many messages there are at most (0: no limit).
type pace struct {
	first, last time.Duration
	most        int
	// fresh questions have a number of their own each time: an answer to an earlier one would
	// have a wrong beginning of the lease.
	fresh bool
}

var (
	// A solicitation is repeated each two minutes, as RFC 3315 had it: a server that was away
	// is found again before long.
	soliciting = pace{time.Second, 2 * time.Minute, 0, false}
	requesting = pace{time.Second, 30 * time.Second, 10, false}
	confirming = pace{time.Second, 4 * time.Second, 4, false}
	prolonging = pace{10 * time.Second, 10 * time.Minute, 0, true}
	informing  = pace{time.Second, 2 * time.Minute, 0, false}
)

const (
	// spread is the longest time before a client asks first: many links come up together.
	spread = 500 * time.Millisecond
	// pause is between the last message and a new start, so that a flapping link sends little.
	pause = time.Second
	// afterConflict is the wait after a Decline.
	afterConflict = 10 * time.Second
	// quiet is how many questions stay without an answer before that is a problem.
	quiet = 3
	// bestPreference needs no wait for other advertisements (RFC 8415, section 18.2.1).
	bestPreference = 255
)

// step is one call of Step.
type step struct {
	State
	now     time.Time
	random  uint64
	actions []Action
}

// Step returns the state after an event, and what has to be done.
func Step(s State, event Event, now time.Time, random uint64) (State, []Action) {
	x := &step{State: s, now: now, random: random}
	if x.Lease != nil && x.Lease.Expired(now) {
		x.expire()
	}
	switch event := event.(type) {
	case LinkUp:
		x.linkUp()
	case LinkDown:
		x.Phase, x.timer, x.best = Down, time.Time{}, nil
	case Tick:
		if !x.timer.IsZero() && !now.Before(x.timer) {
			x.tick()
		}
	case Received:
		x.received(event.Answer)
	case InUse:
		x.inUse(event.Address)
	case Stop:
		x.stop()
	}
	return x.State, x.actions
}

func (x *step) linkUp() {
	if x.Phase != Down {
		return
	}
	x.start(0)
	if x.Lease.HasAddress() {
		x.Phase = Confirming
	}
}

// start begins to look for a server, after a wait.
func (x *step) start(wait time.Duration) {
	x.Phase, x.try, x.best = Init, 0, nil
	x.timer = x.now.Add(wait + x.upTo(spread))
	if next := x.sent.Add(pause); x.timer.Before(next) {
		x.timer = next
	}
}

// upTo returns a random part of a time.
func (x *step) upTo(d time.Duration) time.Duration { return time.Duration(x.random>>24) % max(d, 1) }

func (x *step) tick() {
	switch x.Phase {
	case Init:
		x.solicit()
	case Soliciting:
		if x.best != nil {
			x.choose(*x.best)
			return
		}
		x.solicit()
	case Requesting:
		x.request()
	case Confirming:
		x.confirm()
	case Bound, Renewing, Rebinding:
		x.prolong()
	case Informing, Informed:
		x.inform()
	}
}

// ask sends a message of a phase, and sets the time of the next one, until an end if there is
// one. A new phase asks a new question.
func (x *step) ask(phase Phase, p pace, m Message, end time.Time) {
	if x.Phase != phase || x.try == 0 {
		x.Phase, x.try, x.wait, x.began = phase, 0, 0, x.now
	}
	if x.try == 0 || p.fresh {
		x.asked, x.transaction = x.now, uint32(x.random)&0xffffff
	}
	x.wait = min(max(2*x.wait, p.first), p.last)
	x.wait += x.upTo(x.wait / 10)
	x.try++
	x.timer = x.now.Add(x.wait)
	if !end.IsZero() && x.timer.After(end) {
		x.timer = end
	}
	x.send(m)
}

func (x *step) send(m Message) {
	m.Transaction, m.Elapsed = x.transaction, x.now.Sub(x.began)
	x.sent = x.now
	x.actions = append(x.actions, Send{m})
}

func (x *step) solicit() {
	if x.Stateless {
		x.inform()
		return
	}
	x.silent("no DHCPv6 server answers")
	x.ask(Soliciting, soliciting, Message{Kind: Solicit, Address: x.offered}, time.Time{})
}

// silent notes a problem once some messages of the phase had no answer.
func (x *step) silent(text string) {
	if x.try >= quiet && !x.heard {
		x.Problem.Note(x.now, text)
	}
	x.heard = false
}

func (x *step) inform() {
	if x.Phase == Informed {
		x.try = 0
	}
	x.silent("no DHCPv6 server answers")
	x.ask(Informing, informing, Message{Kind: Inform}, time.Time{})
}

func (x *step) choose(a Answer) {
	x.offered, x.server, x.best, x.try = a.Lease.Address.Addr(), a.ServerID, nil, 0
	x.request()
}

func (x *step) request() {
	if x.Phase == Requesting && x.try >= requesting.most {
		x.Problem.Note(x.now, fmt.Sprintf("the DHCPv6 server offered %s, and does not answer the request", x.offered))
		x.fail(0)
		return
	}
	x.ask(Requesting, requesting, Message{Kind: Request, Address: x.offered, ServerID: x.server}, time.Time{})
}

func (x *step) confirm() {
	if x.try >= confirming.most {
		// RFC 8415, section 18.2.3: the lease counts although nobody answers.
		x.Problem.Note(x.now, "no DHCPv6 server answers; the lease of before is used")
		x.bound()
		return
	}
	x.ask(Confirming, confirming, Message{Kind: Confirm, Address: x.Lease.Address.Addr()}, time.Time{})
}

func (x *step) prolong() {
	lease := x.Lease
	m := Message{Kind: Renew, Address: lease.Address.Addr(), ServerID: lease.ServerID}
	phase, end := Renewing, lease.Rebind
	if !x.now.Before(lease.Rebind) {
		m.Kind, m.ServerID, phase, end = Rebind, nil, Rebinding, lease.Expires
	}
	if x.try >= quiet || phase == Rebinding {
		x.Problem.Note(
			x.now,
			fmt.Sprintf("the DHCPv6 server %s does not answer; the lease ends at %s", lease.Server, until(lease)),
		)
	}
	x.ask(phase, prolonging, m, end)
}

func until(lease *dhcp.Lease) string { return lease.Expires.UTC().Format(time.RFC3339) }

func (x *step) received(a Answer) {
	if a.Transaction != x.transaction {
		return
	}
	switch {
	case x.Phase == Soliciting && a.Kind == Advertise:
		x.advertised(a)
	case a.Kind != Reply:
	case x.Phase == Requesting && bytes.Equal(a.ServerID, x.server):
		x.granted(a)
	case x.Phase == Renewing && bytes.Equal(a.ServerID, x.Lease.ServerID), x.Phase == Rebinding:
		x.prolonged(a)
	case x.Phase == Confirming:
		x.confirmed(a)
	case x.Phase == Informing:
		x.informed(a)
	}
}

func (x *step) advertised(a Answer) {
	switch {
	case a.Unusable != nil:
		x.heard = true
		x.Problem.Note(x.now, fmt.Sprintf("the DHCPv6 server %s: %v", a.Lease.Server, a.Unusable))
	case a.Status != iana.StatusSuccess || !a.Lease.HasAddress() || a.Ended:
		x.heard = true
		x.Problem.Note(
			x.now,
			fmt.Sprintf("the DHCPv6 server %s has no address for this client (status %d)", a.Lease.Server, a.Status),
		)
	case a.Preference == bestPreference || x.try > 1:
		x.choose(a)
	case x.best == nil || a.Preference > x.best.Preference:
		x.best = &a
	}
}

// granted handles the reply to a request.
func (x *step) granted(a Answer) {
	if a.Unusable != nil || a.Status != iana.StatusSuccess || !a.Lease.HasAddress() || a.Ended {
		x.refused(a)
		return
	}
	x.hold(a)
}

func (x *step) prolonged(a Answer) {
	switch {
	case a.Unusable != nil || a.Status == iana.StatusUnspecFail:
		// It is as if the server had not answered.
	case a.Status == iana.StatusNoBinding:
		// The server has lost the lease, and may give it again.
		x.offered, x.server, x.try = x.Lease.Address.Addr(), a.ServerID, 0
		x.request()
	case a.Status != iana.StatusSuccess || a.Ended:
		x.refused(a)
	case a.Lease.Address != x.Lease.Address:
		// RFC 8415, section 18.2.10.1: an address that the reply does not have stays as it is.
	default:
		x.hold(a)
	}
}

func (x *step) confirmed(a Answer) {
	if a.Status == iana.StatusNotOnLink {
		x.refused(a)
		return
	}
	if a.Status == iana.StatusSuccess {
		x.Problem = dhcp.Problem{}
		x.bound()
	}
}

// hold takes a lease in use. It begins with the question.
func (x *step) hold(a Answer) {
	lease := a.Lease
	lease.Acquired = x.asked
	if a.Valid > 0 {
		lease.Expires, lease.Preferred = x.asked.Add(a.Valid), x.asked.Add(a.Preferred)
		lease.Renew, lease.Rebind = x.asked.Add(a.Renew), x.asked.Add(a.Rebind)
	}
	if lease.Expired(x.now) {
		return
	}
	x.use(&lease)
	x.bound()
}

func (x *step) use(lease *dhcp.Lease) {
	x.Lease, x.Problem, x.best = lease, dhcp.Problem{}, nil
	x.actions = append(x.actions, Hold{lease})
}

func (x *step) bound() {
	x.offered, x.server = x.Lease.Address.Addr(), x.Lease.ServerID
	x.Phase, x.try, x.timer = Bound, 0, x.Lease.Renew
}

func (x *step) informed(a Answer) {
	lease := a.Lease
	lease.Address = netip.Prefix{}
	lease.Acquired, lease.Renew = x.now, x.now.Add(a.Refresh)
	x.use(&lease)
	x.Phase, x.try, x.timer = Informed, 0, lease.Renew
}

// refused starts again without the address.
func (x *step) refused(a Answer) {
	reason := fmt.Sprintf("status %d", a.Status)
	if a.Unusable != nil {
		reason = a.Unusable.Error()
	}
	address := x.offered
	if x.Lease.HasAddress() {
		address = x.Lease.Address.Addr()
	}
	x.Problem.Note(x.now, fmt.Sprintf("the DHCPv6 server %s refuses the address %s: %s", a.Lease.Server, address, reason))
	x.giveUp(0)
}

// inUse handles an address that the kernel has found at somebody else.
func (x *step) inUse(address netip.Addr) {
	if !x.Lease.HasAddress() || x.Lease.Address.Addr() != address {
		return
	}
	x.Problem.Note(
		x.now,
		fmt.Sprintf("the address %s of the DHCPv6 server %s is in use by another host", address, x.Lease.Server),
	)
	if x.Phase != Down {
		x.transaction, x.began = uint32(x.random)&0xffffff, x.now
		x.send(Message{Kind: Decline, Address: address, ServerID: x.Lease.ServerID})
	}
	x.giveUp(afterConflict)
}

// giveUp starts again without an address, after a wait that grows with the setbacks.
func (x *step) giveUp(least time.Duration) {
	x.drop()
	x.offered, x.server = netip.Addr{}, nil
	if x.Phase != Down {
		x.fail(least)
	}
}

func (x *step) fail(least time.Duration) { x.start(max(x.setbacks.Next(x.now), least)) }

// expire gives up a lease whose time is over. A request that is under way goes on.
func (x *step) expire() {
	x.Problem.Note(x.now, fmt.Sprintf("the lease of the DHCPv6 server %s ended at %s", x.Lease.Server, until(x.Lease)))
	x.drop()
	switch x.Phase {
	case Confirming, Bound, Renewing, Rebinding:
		x.start(0)
	default:
	}
}

func (x *step) drop() {
	if x.Lease != nil {
		x.Lease = nil
		x.actions = append(x.actions, Hold{nil})
	}
}

func (x *step) stop() {
	if x.Lease.HasAddress() && x.Phase != Down {
		x.transaction, x.began = uint32(x.random)&0xffffff, x.now
		x.send(Message{Kind: Release, Address: x.Lease.Address.Addr(), ServerID: x.Lease.ServerID})
	}
	x.drop()
	x.Phase, x.timer, x.best = Down, time.Time{}, nil
}
