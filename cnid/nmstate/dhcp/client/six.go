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
	v6 "github.com/alioth-net/alioth/cnid/nmstate/dhcp/v6"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp/wire"
)

// six is a client of DHCPv6.
type six struct {
	env
	id        v6.Identity
	stateless bool
	state     v6.State
	socket    *wire.V6
}

func newSix(config *dhcp.V6, l link, machine dhcp.Machine, e env) (*six, error) {
	duid, err := dhcp.DUID(config.DUID, l.hardware, machine)
	if err != nil {
		return nil, err
	}
	id := v6.Identity{DUID: duid, IAID: dhcp.IAID(l.name), Hostname: config.Hostname}
	return &six{env: e, id: id, stateless: config.Mode == dhcp.Stateless}, nil
}

func (s *six) identity() []byte {
	id := append(s.id.IAID[:len(s.id.IAID):len(s.id.IAID)], s.id.DUID...)
	if s.stateless {
		return append(id, "stateless"...)
	}
	return id
}

func (s *six) resume(lease *dhcp.Lease) { s.state = v6.New(s.stateless, lease) }

func (s *six) open(l link) error {
	return s.space.Do(func() (err error) {
		if s.socket, err = wire.OpenV6(context.Background(), l.name, l.index); err != nil {
			return err
		}
		go readReplies(s.socket, s.inbox)
		return nil
	})
}

func readReplies(socket *wire.V6, to inbox) {
	buffer := wire.Buffer()
	for {
		payload, from, err := socket.Read(buffer)
		if err != nil {
			return // the socket is closed
		}
		to.put(packet{payload: bytes.Clone(payload), from: from})
	}
}

func (s *six) close() {
	if s.socket != nil {
		_ = s.socket.Close()
		s.socket = nil
	}
}

func (s *six) up()   { s.step(v6.LinkUp{}) }
func (s *six) down() { s.step(v6.LinkDown{}) }
func (s *six) tick() { s.step(v6.Tick{}) }
func (s *six) stop() { s.step(v6.Stop{}) }

func (s *six) inUse(address netip.Addr) { s.step(v6.InUse{Address: address}) }

func (s *six) take(p packet) {
	if answer, err := s.id.Decode(p.payload, p.from); err == nil {
		s.step(v6.Received{Answer: answer})
	}
}

func (s *six) due() time.Time { return s.state.Due() }

func (s *six) status() (*dhcp.Lease, string, dhcp.Problem) {
	return s.state.Lease, s.state.Phase.String(), s.state.Problem
}

func (s *six) step(event v6.Event) {
	var actions []v6.Action
	s.state, actions = v6.Step(s.state, event, time.Now(), random())
	for _, action := range actions {
		switch action := action.(type) {
		case v6.Hold:
			s.hold(action.Lease)
		case v6.Send:
			if err := s.send(action.Message); err != nil {
				s.failed("send a message of DHCPv6", err)
			}
		}
	}
}

func (s *six) send(m v6.Message) error {
	if s.socket == nil {
		return net.ErrClosed
	}
	return s.socket.Multicast(s.id.Encode(m))
}
