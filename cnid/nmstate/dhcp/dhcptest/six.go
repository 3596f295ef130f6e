// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcptest

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
)

// Six is a server of DHCPv6 for one client.
type Six struct {
	// ID is its DUID.
	ID []byte
	// Pool has the addresses that it gives: the first address that is not declined.
	Pool []netip.Addr
	// Valid and Preferred are the lifetimes, T1 and T2 the times of the association.
	Valid, Preferred, T1, T2 time.Duration
	DNS                      []netip.Addr
	Preference               uint8

	mu       sync.Mutex
	away     bool
	status   iana.StatusCode
	declined []netip.Addr
	asked    []Asked6
}

// Asked6 is a message of a client.
type Asked6 struct {
	Kind    dhcpv6.MessageType
	Address netip.Addr
	Server  []byte
}

// SetAway makes the server silent, or answer again.
func (s *Six) SetAway(away bool) { s.mu.Lock(); s.away = away; s.mu.Unlock() }

// SetStatus makes the server answer with a status instead of an address; 0 ends that.
func (s *Six) SetStatus(status iana.StatusCode) { s.mu.Lock(); s.status = status; s.mu.Unlock() }

// Asked returns all messages so far.
func (s *Six) Asked() []Asked6 { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.asked) }

// Answer returns the answer to a message, or nil.
func (s *Six) Answer(payload []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	message, err := dhcpv6.MessageFromBytes(payload)
	if err != nil || s.away {
		return nil
	}
	a := read6(message)
	s.asked = append(s.asked, a)
	if a.Server != nil && !slices.Equal(a.Server, s.ID) {
		return nil
	}
	kind := dhcpv6.MessageTypeReply
	switch a.Kind {
	case dhcpv6.MessageTypeSolicit:
		kind = dhcpv6.MessageTypeAdvertise
	case dhcpv6.MessageTypeDecline:
		s.declined = append(s.declined, a.Address)
		return nil
	case dhcpv6.MessageTypeRelease:
		return nil
	}
	return s.reply(message, kind)
}

func read6(message *dhcpv6.Message) Asked6 {
	a := Asked6{Kind: message.MessageType}
	if ia := message.Options.OneIANA(); ia != nil && ia.Options.OneAddress() != nil {
		a.Address, _ = netip.AddrFromSlice(ia.Options.OneAddress().IPv6Addr)
	}
	if server := message.GetOneOption(dhcpv6.OptionServerID); server != nil {
		a.Server = server.ToBytes()
	}
	return a
}

func (s *Six) reply(to *dhcpv6.Message, kind dhcpv6.MessageType) []byte {
	answer := &dhcpv6.Message{MessageType: kind, TransactionID: to.TransactionID}
	answer.AddOption(to.GetOneOption(dhcpv6.OptionClientID))
	answer.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionServerID, OptionData: s.ID})
	if s.Preference > 0 {
		answer.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionPreference, OptionData: []byte{s.Preference}})
	}
	if len(s.DNS) > 0 {
		var servers []net.IP
		for _, a := range s.DNS {
			servers = append(servers, a.AsSlice())
		}
		answer.AddOption(dhcpv6.OptDNS(servers...))
	}
	asked := to.Options.OneIANA()
	if to.MessageType == dhcpv6.MessageTypeConfirm || asked == nil {
		answer.AddOption(&dhcpv6.OptStatusCode{StatusCode: s.status})
		return answer.ToBytes()
	}
	answer.AddOption(s.association(asked.IaId))
	return answer.ToBytes()
}

func (s *Six) association(id [4]byte) *dhcpv6.OptIANA {
	ia := &dhcpv6.OptIANA{IaId: id, T1: s.T1, T2: s.T2}
	for _, address := range s.Pool {
		if slices.Contains(s.declined, address) || s.status != iana.StatusSuccess {
			continue
		}
		ia.Options.Add(
			&dhcpv6.OptIAAddress{IPv6Addr: address.AsSlice(), ValidLifetime: s.Valid, PreferredLifetime: s.Preferred},
		)
		return ia
	}
	status := s.status
	if status == iana.StatusSuccess {
		status = iana.StatusNoAddrsAvail
	}
	ia.Options.Add(&dhcpv6.OptStatusCode{StatusCode: status})
	return ia
}
