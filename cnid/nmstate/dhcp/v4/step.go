// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v4

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

const (
	// firstWait and lastWait bound the time until a question is repeated, which doubles
	// (RFC 2131, section 4.1). jitter is added or taken away.
	firstWait, lastWait = 4 * time.Second, 64 * time.Second
	jitter              = time.Second
	// maxRequests is how often an offer is requested, or a lease of before.
	maxRequests = 4
	// spread is the longest time before a client asks first: many links come up together.
	spread = 500 * time.Millisecond
	// pause is between the last message and a new start, so that a flapping link sends little.
	pause = time.Second
	// probes is how often the client asks who has its address, every probeWait to twice that.
	// RFC 5227 takes seconds; hosts on one link answer within milliseconds.
	probes    = 3
	probeWait = 200 * time.Millisecond
	// afterConflict is the wait after DECLINE (RFC 2131, section 3.1).
	afterConflict = 10 * time.Second
	// quiet is how many questions stay without an answer before that is a problem.
	quiet = 2
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
		x.Phase, x.timer, x.pending = Down, time.Time{}, nil
	case Tick:
		if !x.timer.IsZero() && !now.Before(x.timer) {
			x.tick()
		}
	case Received:
		x.received(event.Answer)
	case InUse:
		x.inUse(event)
	case Stop:
		x.stop()
	}
	return x.State, x.actions
}

func (x *step) linkUp() {
	if x.Phase != Down {
		return
	}
	x.began = x.now
	if x.Lease == nil {
		x.start(0)
		return
	}
	x.Phase, x.try = Rebooting, 0
	x.timer = x.soon(0)
}

// start begins to ask for offers, after a wait.
func (x *step) start(wait time.Duration) {
	x.Phase, x.try, x.pending = Init, 0, nil
	x.timer = x.soon(wait)
}

// soon returns when the next message may be sent: after a wait, and not right after the last.
func (x *step) soon(wait time.Duration) time.Time {
	at := x.now.Add(wait + x.upTo(spread))
	if next := x.sent.Add(pause); at.Before(next) {
		return next
	}
	return at
}

// upTo returns a random part of a time.
func (x *step) upTo(d time.Duration) time.Duration { return time.Duration(x.random>>32) % d }

func (x *step) tick() {
	switch x.Phase {
	case Init:
		x.began, x.transaction, x.try = x.now, uint32(x.random), 0
		x.discover()
	case Selecting:
		x.discover()
	case Requesting:
		x.request()
	case Rebooting:
		x.reboot()
	case Probing:
		x.probe()
	case Bound, Renewing, Rebinding:
		x.prolong()
	}
}

// again counts a message of the phase, and sets the time of the next one.
func (x *step) again() {
	if x.try == 0 {
		x.asked = x.now
	}
	wait := min(firstWait<<min(x.try, 4), lastWait)
	x.try++
	x.timer = x.now.Add(wait - jitter + x.upTo(2*jitter))
}

func (x *step) send(m Message) {
	m.Transaction, m.Elapsed = x.transaction, x.now.Sub(x.began)
	x.sent = x.now
	x.actions = append(x.actions, Send{m})
}

func (x *step) discover() {
	if x.try >= quiet && !x.heard {
		x.Problem.Note(x.now, "no DHCP server answers")
	}
	x.Phase, x.heard = Selecting, false
	x.again()
	x.send(Message{Kind: Discover, Requested: x.offered})
}

func (x *step) request() {
	if x.try >= maxRequests {
		x.Problem.Note(
			x.now,
			fmt.Sprintf("the DHCP server %s offered %s, and does not answer the request", x.server, x.offered),
		)
		x.fail(0)
		return
	}
	x.again()
	x.send(Message{Kind: Request, Requested: x.offered, Server: x.server})
}

func (x *step) reboot() {
	if x.try >= maxRequests {
		// RFC 2131, section 3.2: an unexpired lease counts although nobody answers.
		x.Problem.Note(x.now, "no DHCP server answers; the lease of before is used")
		x.bound()
		return
	}
	if x.try == 0 {
		x.transaction = uint32(x.random)
	}
	x.again()
	x.send(Message{Kind: Request, Requested: x.Lease.Address.Addr()})
}

// prolong asks for more time: the server until Rebind, then all servers.
func (x *step) prolong() {
	lease := x.Lease
	message, end := Message{Kind: Request, Client: lease.Address.Addr(), Unicast: lease.Server}, lease.Rebind
	phase := Renewing
	if !x.now.Before(lease.Rebind) {
		message.Unicast, end, phase = netip.Addr{}, lease.Expires, Rebinding
	}
	if x.Phase == Bound {
		x.began, x.try = x.now, 0
	}
	if x.try++; x.try > quiet {
		x.Problem.Note(
			x.now,
			fmt.Sprintf("the DHCP server %s does not answer; the lease ends at %s", lease.Server, until(lease)),
		)
	}
	// Each question has a number of its own: an answer to an earlier one would have a wrong
	// beginning of the lease.
	x.Phase, x.transaction, x.asked = phase, uint32(x.random), x.now
	x.timer = x.now.Add(betweenRenewals(lease, end.Sub(x.now)))
	x.send(message)
}

// betweenRenewals returns the time until the next question: half of what is left, and not less
// than a minute, or a part of a short lease (RFC 2131, section 4.4.5).
func betweenRenewals(lease *dhcp.Lease, left time.Duration) time.Duration {
	least := min(max(lease.Expires.Sub(lease.Acquired)/30, time.Second), time.Minute)
	return min(max(left/2, least), left)
}

func until(lease *dhcp.Lease) string { return lease.Expires.UTC().Format(time.RFC3339) }

func (x *step) received(a Answer) {
	if a.Transaction != x.transaction || !x.expected(a) {
		return
	}
	if a.Unusable != nil {
		x.heard = true
		x.Problem.Note(x.now, fmt.Sprintf("the DHCP server %s: %v", a.Server, a.Unusable))
		if x.Phase == Requesting {
			x.fail(0)
		}
		return
	}
	switch a.Kind {
	case Offer:
		x.Phase, x.try = Requesting, 0
		x.offered, x.server = a.Lease.Address.Addr(), a.Server
		x.request()
	case ACK:
		x.acknowledged(a)
	case NAK:
		x.refused(a)
	}
}

// expected reports whether an answer is one to the last question. Where the client has chosen
// a server, answers of others do not count; an address that it has does not change.
func (x *step) expected(a Answer) bool {
	chosen := a.Server == x.server
	switch x.Phase {
	case Selecting:
		return a.Kind == Offer
	case Requesting:
		return a.Kind != Offer && chosen
	case Rebooting:
		return a.Kind == NAK || a.Kind == ACK && x.keeps(a)
	case Renewing:
		return a.Server == x.Lease.Server && (a.Kind == NAK || a.Kind == ACK && x.keeps(a))
	case Rebinding:
		return a.Kind == NAK || a.Kind == ACK && x.keeps(a)
	}
	return false
}

func (x *step) keeps(a Answer) bool {
	return a.Unusable != nil || a.Lease.Address.Addr() == x.Lease.Address.Addr()
}

func (x *step) acknowledged(a Answer) {
	lease := a.Lease
	lease.Acquired = x.asked
	if a.Time > 0 {
		lease.Renew, lease.Rebind = x.asked.Add(a.Renew), x.asked.Add(a.Rebind)
		lease.Expires = x.asked.Add(a.Time)
		lease.Preferred = lease.Expires
	}
	if lease.Expired(x.now) {
		return
	}
	if x.Lease != nil {
		x.hold(&lease)
		return
	}
	x.Phase, x.try, x.pending = Probing, 0, &lease
	x.probe()
}

func (x *step) probe() {
	if x.pending.Expired(x.now) {
		x.fail(0)
		return
	}
	if x.try == probes {
		address := x.pending.Address.Addr()
		x.hold(x.pending)
		x.actions = append(x.actions, Announce{address})
		return
	}
	x.try++
	x.timer = x.now.Add(probeWait + x.upTo(probeWait))
	x.actions = append(x.actions, Probe{x.pending.Address.Addr()})
}

// hold takes a lease in use.
func (x *step) hold(lease *dhcp.Lease) {
	x.pending, x.Lease, x.Problem = nil, lease, dhcp.Problem{}
	x.offered, x.server = lease.Address.Addr(), lease.Server
	x.actions = append(x.actions, Hold{lease})
	x.bound()
}

func (x *step) bound() {
	x.Phase, x.try, x.timer = Bound, 0, x.Lease.Renew
}

// refused handles a NAK: nothing of the lease may be used any more.
func (x *step) refused(a Answer) {
	text := fmt.Sprintf("the DHCP server %s refuses the address %s", a.Server, x.offered)
	if x.Lease != nil {
		text = fmt.Sprintf("the DHCP server %s refuses the address %s", a.Server, x.Lease.Address.Addr())
		x.drop()
	}
	x.Problem.Note(x.now, text)
	x.offered, x.server = netip.Addr{}, netip.Addr{}
	x.fail(0)
}

func (x *step) inUse(e InUse) {
	if x.Phase != Probing || e.Address != x.pending.Address.Addr() {
		return
	}
	x.Problem.Note(x.now, fmt.Sprintf("the address %s of the DHCP server %s is in use by %s", e.Address, x.server, e.By))
	x.send(Message{Kind: Decline, Requested: e.Address, Server: x.server})
	x.offered, x.server = netip.Addr{}, netip.Addr{}
	x.fail(afterConflict)
}

// fail starts again, after a wait that grows with the setbacks.
func (x *step) fail(least time.Duration) { x.start(max(x.setbacks.Next(x.now), least)) }

// expire gives up a lease whose time is over.
func (x *step) expire() {
	x.Problem.Note(x.now, fmt.Sprintf("the lease of the DHCP server %s ended at %s", x.Lease.Server, until(x.Lease)))
	x.drop()
	if x.Phase != Down {
		x.start(0)
	}
}

func (x *step) drop() {
	x.Lease = nil
	x.actions = append(x.actions, Hold{nil})
}

func (x *step) stop() {
	if x.Lease != nil {
		if x.Phase != Down {
			x.transaction, x.began = uint32(x.random), x.now
			x.send(Message{Kind: Release, Client: x.Lease.Address.Addr(), Server: x.Lease.Server, Unicast: x.Lease.Server})
		}
		x.drop()
	}
	x.Phase, x.timer, x.pending = Down, time.Time{}, nil
}
