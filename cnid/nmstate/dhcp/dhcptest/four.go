// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dhcptest has DHCP servers for tests: they give leases of any time, refuse, and write
// down what they are asked. Tests of the usual paths use dnsmasq.
package dhcptest

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Four is a server of DHCP. The zero values of the times give the usual ones.
type Four struct {
	Address netip.Addr
	// Pool has the addresses that it gives, in order.
	Pool []netip.Prefix
	// Time, T1 and T2 are the times of leases; without T1 and T2 the options are missing.
	Time, T1, T2 time.Duration
	// Options are added to offers and acknowledgements.
	Options []dhcpv4.Option
	// ByID makes it know clients by their identifiers, and not by their hardware addresses.
	ByID bool

	mu      sync.Mutex
	away    bool
	refuses bool
	given   map[string]netip.Addr
	bad     []netip.Addr
	asked   []Asked
}

// Asked is a message of a client.
type Asked struct {
	Kind                      dhcpv4.MessageType
	Client, Requested, Server netip.Addr
	Hardware, Hostname        string
	ID                        []byte
}

// SetAway makes the server silent, or answer again.
func (f *Four) SetAway(away bool) { f.mu.Lock(); f.away = away; f.mu.Unlock() }

// SetRefuses makes the server refuse every request, or none.
func (f *Four) SetRefuses(refuses bool) { f.mu.Lock(); f.refuses = refuses; f.mu.Unlock() }

// Forget makes the server give the next addresses of its pool to all.
func (f *Four) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.given {
		f.bad = append(f.bad, a)
	}
	clear(f.given)
}

// Asked returns all messages so far.
func (f *Four) Asked() []Asked { f.mu.Lock(); defer f.mu.Unlock(); return slices.Clone(f.asked) }

// Answer returns the answer to a message, or nil.
func (f *Four) Answer(payload []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	request, err := dhcpv4.FromBytes(payload)
	if err != nil || f.away {
		return nil
	}
	a := read(request)
	f.asked = append(f.asked, a)
	known := a.Hardware
	if f.ByID {
		known = string(a.ID)
	}
	switch a.Kind {
	case dhcpv4.MessageTypeDiscover:
		if address, ok := f.of(known); ok {
			return f.reply(request, dhcpv4.MessageTypeOffer, address)
		}
	case dhcpv4.MessageTypeRequest:
		if a.Server.IsValid() && a.Server != f.Address {
			return nil
		}
		address, ok := f.of(known)
		wanted := a.Requested
		if a.Client.IsValid() {
			wanted = a.Client
		}
		if !ok || f.refuses || address.Addr() != wanted {
			return f.reply(request, dhcpv4.MessageTypeNak, netip.Prefix{})
		}
		return f.reply(request, dhcpv4.MessageTypeAck, address)
	case dhcpv4.MessageTypeDecline:
		f.bad = append(f.bad, a.Requested)
		delete(f.given, known)
	case dhcpv4.MessageTypeRelease:
		delete(f.given, known)
	}
	return nil
}

func read(request *dhcpv4.DHCPv4) Asked {
	a := Asked{
		Kind: request.MessageType(), Hardware: request.ClientHWAddr.String(), Hostname: request.HostName(),
		ID: request.Options.Get(dhcpv4.OptionClientIdentifier),
	}
	a.Client, _ = netip.AddrFromSlice(request.ClientIPAddr.To4())
	if a.Client.IsUnspecified() {
		a.Client = netip.Addr{}
	}
	a.Requested, _ = netip.AddrFromSlice(request.RequestedIPAddress().To4())
	a.Server, _ = netip.AddrFromSlice(request.ServerIdentifier().To4())
	return a
}

// of returns the address of a client, the next of the pool if it has none.
func (f *Four) of(client string) (netip.Prefix, bool) {
	if f.given == nil {
		f.given = map[string]netip.Addr{}
	}
	had, has := f.given[client]
	for _, p := range f.Pool {
		if has && p.Addr() == had {
			return p, true
		}
		if has || slices.Contains(f.bad, p.Addr()) || f.isGiven(p.Addr()) {
			continue
		}
		f.given[client] = p.Addr()
		return p, true
	}
	return netip.Prefix{}, false
}

func (f *Four) isGiven(address netip.Addr) bool {
	for _, a := range f.given {
		if a == address {
			return true
		}
	}
	return false
}

func (f *Four) reply(request *dhcpv4.DHCPv4, kind dhcpv4.MessageType, address netip.Prefix) []byte {
	answer, err := dhcpv4.NewReplyFromRequest(request, dhcpv4.WithMessageType(kind),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(f.Address.AsSlice())))
	if err != nil {
		panic(err) // a request that was read can be answered
	}
	if kind == dhcpv4.MessageTypeNak {
		return answer.ToBytes()
	}
	answer.YourIPAddr = address.Addr().AsSlice()
	lease := f.Time
	if lease == 0 {
		lease = time.Hour
	}
	answer.UpdateOption(dhcpv4.OptIPAddressLeaseTime(lease))
	mask := ^uint32(0) << (32 - address.Bits())
	answer.UpdateOption(dhcpv4.OptSubnetMask([]byte{byte(mask >> 24), byte(mask >> 16), byte(mask >> 8), byte(mask)}))
	if f.T1 > 0 {
		answer.UpdateOption(dhcpv4.OptRenewTimeValue(f.T1))
	}
	if f.T2 > 0 {
		answer.UpdateOption(dhcpv4.Option{Code: dhcpv4.OptionRebindingTimeValue, Value: dhcpv4.Duration(f.T2)})
	}
	for _, option := range f.Options {
		answer.UpdateOption(option)
	}
	return answer.ToBytes()
}
