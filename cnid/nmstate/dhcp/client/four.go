// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	v4 "github.com/alioth-net/alioth/cnid/nmstate/dhcp/v4"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp/wire"
)

// four is a client of DHCP.
type four struct {
	env
	id     v4.Identity
	link   link
	state  v4.State
	socket *wire.V4
	// arp is open while the client probes an address.
	arp *wire.ARP
}

func newFour(config *dhcp.V4, l link, machine dhcp.Machine, e env) (*four, error) {
	clientID, err := dhcp.ClientID(config, l.name, l.hardware, machine)
	if err != nil {
		return nil, err
	}
	return &four{env: e, id: v4.Identity{Hardware: l.hardware, ClientID: clientID, Hostname: config.Hostname}}, nil
}

func (f *four) identity() []byte { return f.id.ClientID }

func (f *four) resume(lease *dhcp.Lease) { f.state = v4.New(lease) }

func (f *four) open(l link) error {
	f.link = l
	return f.space.Do(func() (err error) {
		if f.socket, err = wire.OpenV4(l.name, l.index, l.hardware); err != nil {
			return err
		}
		go readAnswers(f.socket, f.inbox)
		return nil
	})
}

func readAnswers(socket *wire.V4, to inbox) {
	buffer := wire.Buffer()
	for {
		payload, err := socket.Read(buffer)
		if err != nil {
			return // the socket is closed, or its interface is gone
		}
		to.put(packet{payload: bytes.Clone(payload)})
	}
}

func readClaims(socket *wire.ARP, to inbox) {
	buffer := wire.Buffer()
	for {
		address, by, err := socket.Read(buffer)
		if err != nil {
			return
		}
		to.put(packet{claimed: address, by: by})
	}
}

func (f *four) close() {
	if f.socket != nil {
		_ = f.socket.Close()
		f.socket = nil
	}
	f.closeARP()
}

func (f *four) closeARP() {
	if f.arp != nil {
		_ = f.arp.Close()
		f.arp = nil
	}
}

func (f *four) up()              { f.step(v4.LinkUp{}) }
func (f *four) down()            { f.step(v4.LinkDown{}) }
func (f *four) tick()            { f.step(v4.Tick{}) }
func (f *four) stop()            { f.step(v4.Stop{}) }
func (f *four) inUse(netip.Addr) {} // the kernel detects duplicates of IPv6 alone

func (f *four) take(p packet) {
	if p.claimed.IsValid() {
		f.step(v4.InUse{Address: p.claimed, By: p.by.String()})
		return
	}
	if answer, err := f.id.Decode(p.payload); err == nil {
		f.step(v4.Received{Answer: answer})
	}
}

func (f *four) due() time.Time { return f.state.Due() }

func (f *four) status() (*dhcp.Lease, string, dhcp.Problem) {
	return f.state.Lease, f.state.Phase.String(), f.state.Problem
}

func (f *four) step(event v4.Event) {
	var actions []v4.Action
	f.state, actions = v4.Step(f.state, event, time.Now(), random())
	for _, action := range actions {
		f.do(action)
	}
	if f.state.Phase != v4.Probing {
		f.closeARP()
	}
}

func (f *four) do(action v4.Action) {
	switch action := action.(type) {
	case v4.Hold:
		f.hold(action.Lease)
	case v4.Send:
		f.report("send a message of DHCP", f.send(action.Message))
	case v4.Probe:
		f.report("ask whether an address is in use", f.withARP(func(a *wire.ARP) error { return a.Probe(action.Address) }))
	case v4.Announce:
		f.report("announce an address", f.withARP(func(a *wire.ARP) error { return a.Announce(action.Address) }))
	}
}

func (f *four) report(doing string, err error) {
	if err != nil {
		f.failed(doing, err)
	}
}

func (f *four) send(m v4.Message) error {
	if f.socket == nil {
		return net.ErrClosed
	}
	payload := f.id.Encode(m)
	if m.Unicast.IsValid() {
		err := f.space.Do(func() error { return f.socket.Unicast(context.Background(), payload, m.Client, m.Unicast) })
		if err == nil {
			return nil
		}
		// The address is not on the interface, or no route leads to the server: all servers
		// hear a broadcast, and this one answers.
	}
	return f.socket.Broadcast(payload, m.Client)
}

func (f *four) withARP(do func(*wire.ARP) error) error {
	if f.arp == nil {
		err := f.space.Do(func() (err error) {
			f.arp, err = wire.OpenARP(f.link.index, f.link.hardware)
			return err
		})
		if err != nil {
			return err
		}
		go readClaims(f.arp, f.inbox)
	}
	return do(f.arp)
}
