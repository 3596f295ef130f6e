// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"log/slog"
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// listener publishes the state of clients.
type listener interface {
	tell(held dhcp.Held)
}

// runner runs one client. Its goroutine alone uses its protocol.
type runner struct {
	key     dhcp.Key
	config  dhcp.Config
	log     *slog.Logger
	folder  folder
	machine dhcp.Machine
	space   Space
	listener

	events chan func(*runner)
	inbox  inbox
	// done is closed when the goroutine has ended.
	done chan struct{}

	link link
	// advice has what routers of the link have told.
	advice   advice
	protocol protocol
	// opened tells whether the sockets are open.
	opened bool
	// broken tells why the protocol does not run, or why its sockets or files fail.
	broken dhcp.Problem
	ended  bool
}

// begin sets up the client on a link as far as that is known, with the lease of its file, and
// tells of it. The goroutine starts by run.
func (r *runner) begin(l link, a advice) {
	r.advice = a
	r.onLink(l)
	r.publish()
}

// run handles one event after the other until the client ends.
func (r *runner) run() {
	defer close(r.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !r.ended {
		r.arm(timer)
		select {
		case event := <-r.events:
			event(r)
		case p := <-r.inbox:
			if r.protocol != nil {
				r.protocol.take(p)
			}
		case <-timer.C:
			r.wake()
		}
		if !r.ended {
			r.publish()
		}
	}
}

// retry is how long a client without sockets waits until it opens them again.
const retry = 5 * time.Second

// never is longer than any lease.
const never = 1 << 62

func (r *runner) arm(timer *time.Timer) {
	wait := time.Duration(never)
	if r.protocol != nil {
		if due := r.protocol.due(); !due.IsZero() {
			wait = max(time.Until(due), 0)
		}
		if r.link.ready && !r.opened {
			wait = min(wait, retry)
		}
	}
	timer.Reset(wait)
}

func (r *runner) wake() {
	if r.protocol == nil {
		return
	}
	if r.link.ready && !r.opened {
		r.open()
	}
	r.protocol.tick()
}

// onLink handles a change of the interface. The hardware address counts once the link has a
// carrier: an interface that was gone may get the address of before when it is made again.
func (r *runner) onLink(l link) {
	if r.protocol != nil && !l.ready {
		l.hardware = r.link.hardware
	}
	if r.protocol != nil && r.link.same(l) {
		return
	}
	if r.protocol == nil || !bytes.Equal(r.link.hardware, l.hardware) {
		r.become(l)
	}
	if r.opened && (l.index != r.link.index || !l.ready) {
		r.protocol.close()
		r.opened = false
	}
	r.link = l
	if r.protocol == nil {
		return
	}
	if !l.ready {
		r.protocol.down()
		return
	}
	r.open()
}

// open opens the sockets, and begins to ask.
func (r *runner) open() {
	if !r.opened {
		if err := r.protocol.open(r.link); err != nil {
			r.protocol.close()
			r.broken.Note(time.Now(), err.Error())
			return
		}
		r.opened, r.broken = true, dhcp.Problem{}
	}
	r.protocol.up()
}

// become makes the client of a hardware address. If servers know it by another identity than
// the last one, what that one had is not its.
func (r *runner) become(l link) {
	if len(l.hardware) == 0 {
		return // the interface does not exist yet
	}
	p, err := r.newProtocol(l)
	if p == nil || err != nil {
		p = nil
	}
	var lease *dhcp.Lease
	switch {
	case r.protocol != nil:
		lease = r.leaves(p)
	case p != nil:
		lease = r.load(p)
	}
	if err != nil {
		r.broken.Note(time.Now(), err.Error())
	}
	if r.protocol, r.link.hardware = p, l.hardware; p != nil {
		p.resume(lease)
	}
}

// leaves ends the protocol of another hardware address, and returns the lease that a new one
// goes on with.
func (r *runner) leaves(next protocol) *dhcp.Lease {
	r.protocol.close()
	r.opened = false
	lease, _, _ := r.protocol.status()
	if lease != nil && (next == nil || !bytes.Equal(next.identity(), r.protocol.identity())) {
		r.hold(nil)
		return nil
	}
	return lease
}

// load returns the lease of an earlier process.
func (r *runner) load(p protocol) *dhcp.Lease {
	lease, err := r.folder.load(r.key, p.identity(), time.Now())
	if err != nil {
		r.log.Warn(
			"The lease of an earlier process can't be read; the client asks for a new one",
			"client",
			r.key.String(),
			"error",
			err,
		)
	}
	return lease
}

// newProtocol returns the client for a link; nil if routers have not told yet what to ask for.
func (r *runner) newProtocol(l link) (protocol, error) {
	e := env{inbox: r.inbox, space: r.space, keeper: r}
	if r.key.Family == ipfamily.IPv4 {
		return newFour(r.config.V4, l, r.machine, e)
	}
	config := *r.config.V6
	if config.Mode == dhcp.ByRouter {
		switch {
		case r.advice.managed:
			config.Mode = dhcp.Stateful
		case r.advice.other:
			config.Mode = dhcp.Stateless
		default:
			return nil, nil
		}
	}
	return newSix(&config, l, r.machine, e)
}

// onAdvice handles what routers tell. A router that tells less than before, or nothing, ends
// nothing: leases end by themselves.
func (r *runner) onAdvice(a advice) {
	more := a.managed && !r.advice.managed || a.other && !r.advice.managed && !r.advice.other
	if !more {
		return
	}
	r.advice = a
	if r.key.Family == ipfamily.IPv6 && r.config.V6.Mode == dhcp.ByRouter {
		r.become(r.link)
		if r.protocol != nil && r.link.ready {
			r.open()
		}
	}
}

// hold writes the lease in use to disk, before anything uses it.
func (r *runner) hold(lease *dhcp.Lease) {
	var err error
	if lease == nil {
		err = r.folder.remove(r.key)
	} else {
		err = r.folder.save(r.key, r.protocol.identity(), lease)
	}
	if err != nil {
		// The network matters more than the file: without it the lease is lost by a restart.
		r.log.Error("The lease can't be kept on disk", "client", r.key.String(), "error", err)
		return
	}
	if lease == nil {
		r.log.Info("There is no lease any more", "client", r.key.String())
		return
	}
	r.log.Debug(
		"A server gave a lease",
		"client",
		r.key.String(),
		"address",
		lease.Address,
		"server",
		lease.Server,
		"expires",
		lease.Expires,
	)
}

func (r *runner) failed(doing string, err error) {
	// It is as if the message were lost: the machine sends it again.
	r.log.Debug("Could not "+doing, "client", r.key.String(), "error", err)
}

// end ends the client. With release, it gives the address back.
func (r *runner) end(release bool) {
	if r.protocol != nil {
		if release {
			r.protocol.stop()
		}
		r.protocol.close()
	}
	r.ended = true
}

// onDuplicate handles an address that the kernel found at another host.
func (r *runner) onDuplicate(address netip.Addr) {
	if r.protocol != nil {
		r.protocol.inUse(address)
	}
}

func (r *runner) publish() {
	held := dhcp.Held{Key: r.key, Index: r.link.index, Problem: r.broken}
	switch {
	case r.protocol != nil:
		lease, phase, problem := r.protocol.status()
		held.Lease, held.Phase = lease, phase
		if held.Problem.Text == "" {
			held.Problem = problem
		}
	case r.link.index == 0:
		held.Phase = "no interface"
	default:
		held.Phase = "no advertisement"
	}
	r.tell(held)
}
