// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v6

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// Identity has what a client tells of itself in each message.
type Identity struct {
	DUID     []byte
	IAID     [4]byte
	Hostname string
}

// Kind is a type of message.
type Kind = dhcpv6.MessageType

// Types of messages.
const (
	Solicit   = dhcpv6.MessageTypeSolicit
	Advertise = dhcpv6.MessageTypeAdvertise
	Request   = dhcpv6.MessageTypeRequest
	Confirm   = dhcpv6.MessageTypeConfirm
	Renew     = dhcpv6.MessageTypeRenew
	Rebind    = dhcpv6.MessageTypeRebind
	Reply     = dhcpv6.MessageTypeReply
	Release   = dhcpv6.MessageTypeRelease
	Decline   = dhcpv6.MessageTypeDecline
	Inform    = dhcpv6.MessageTypeInformationRequest
)

// Message is a message to servers. All are sent to the group of servers and relays.
type Message struct {
	Kind Kind
	// Transaction is the number that the answer repeats; it has 24 bits.
	Transaction uint32
	// Elapsed is since the client began to ask.
	Elapsed time.Duration
	// Address is the one that the message is about, ServerID the server that is to answer.
	Address  netip.Addr
	ServerID []byte
}

// Encode returns a message as the payload of UDP.
func (id Identity) Encode(m Message) []byte {
	message := &dhcpv6.Message{MessageType: m.Kind, TransactionID: transaction(m.Transaction)}
	message.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionClientID, OptionData: id.DUID})
	if m.ServerID != nil {
		message.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionServerID, OptionData: m.ServerID})
	}
	// In hundredths of a second (RFC 8415, section 21.9).
	elapsed := min(max(m.Elapsed, 0), math.MaxUint16*10*time.Millisecond)
	message.AddOption(dhcpv6.OptElapsedTime(elapsed))
	if m.Kind != Inform {
		message.AddOption(id.association(m.Address))
	}
	if m.Kind != Release && m.Kind != Decline && m.Kind != Confirm {
		wanted := []dhcpv6.OptionCode{dhcpv6.OptionDNSRecursiveNameServer, dhcpv6.OptionDomainSearchList}
		if m.Kind == Inform {
			wanted = append(wanted, dhcpv6.OptionInformationRefreshTime)
		}
		message.AddOption(dhcpv6.OptRequestedOption(wanted...))
		if id.Hostname != "" && m.Kind != Inform {
			// Flags of 0: the server writes no record of DNS unless it wants to (RFC 4704).
			message.AddOption(&dhcpv6.OptFQDN{DomainName: &rfc1035label.Labels{Labels: []string{id.Hostname}}})
		}
	}
	return message.ToBytes()
}

func (id Identity) association(address netip.Addr) *dhcpv6.OptIANA {
	ia := &dhcpv6.OptIANA{IaId: id.IAID}
	if address.IsValid() {
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.IP(address.AsSlice())})
	}
	return ia
}

func transaction(number uint32) dhcpv6.TransactionID {
	return dhcpv6.TransactionID{byte(number >> 16), byte(number >> 8), byte(number)}
}

// Answer is a message of a server.
type Answer struct {
	Kind        Kind
	Transaction uint32
	ServerID    []byte
	Preference  uint8
	// Status is the status of the message, or the status of its address if that is not a success.
	Status iana.StatusCode
	// Lease has no times yet. Its Address is zero if the message has none. Valid, Preferred,
	// Renew and Rebind are lifetimes, 0 is forever.
	Lease                           dhcp.Lease
	Valid, Preferred, Renew, Rebind time.Duration
	// Ended tells that the server takes the address back: its lifetimes are over.
	Ended bool
	// Refresh is when a stateless client asks again.
	Refresh time.Duration
	// Unusable tells why the client can't use what the server gives.
	Unusable error
}

// Decode reads the payload of UDP. It returns an error unless the message answers this client.
func (id Identity) Decode(payload []byte, from netip.Addr) (Answer, error) {
	message, err := dhcpv6.MessageFromBytes(payload)
	if err != nil {
		return Answer{}, err
	}
	if message.MessageType != Advertise && message.MessageType != Reply {
		return Answer{}, fmt.Errorf("a server does not send messages of type %d", message.MessageType)
	}
	client := message.GetOneOption(dhcpv6.OptionClientID)
	if client == nil || !bytes.Equal(client.ToBytes(), id.DUID) {
		return Answer{}, errors.New("the message is not for this client")
	}
	server := message.GetOneOption(dhcpv6.OptionServerID)
	if server == nil || len(server.ToBytes()) < minServerID || len(server.ToBytes()) > maxServerID {
		return Answer{}, errors.New("the message names no server")
	}
	t := message.TransactionID
	a := Answer{
		Kind: message.MessageType, Transaction: uint32(t[0])<<16 | uint32(t[1])<<8 | uint32(t[2]),
		ServerID: server.ToBytes(), Preference: message.Options.Preference(),
		Refresh: min(max(message.Options.InformationRefreshTime(usualRefresh), leastRefresh), usualRefresh),
	}
	a.Lease = dhcp.Lease{Server: from, ServerID: a.ServerID, DNS: servers(message.Options.DNS()), Search: search(message)}
	a.Unusable = a.read(message, id.IAID)
	return a, nil
}

const (
	minServerID, maxServerID = 3, 130
	// usualRefresh and leastRefresh are IRT_DEFAULT and IRT_MINIMUM (RFC 8415, section 7.6).
	usualRefresh, leastRefresh = 24 * time.Hour, 10 * time.Minute
)

// read takes the address out of a message.
func (a *Answer) read(message *dhcpv6.Message, iaid [4]byte) error {
	if status := message.Options.Status(); status != nil {
		a.Status = status.StatusCode
	}
	for _, ia := range message.Options.IANA() {
		if ia.IaId != iaid {
			continue
		}
		if status := ia.Options.Status(); status != nil && a.Status == iana.StatusSuccess {
			a.Status = status.StatusCode
		}
		var last error
		for _, given := range ia.Options.Addresses() {
			if last = a.readAddress(ia, given); last == nil {
				return nil
			}
		}
		return last
	}
	return nil
}

func (a *Answer) readAddress(ia *dhcpv6.OptIANA, given *dhcpv6.OptIAAddress) error {
	if status := given.Options.Status(); status != nil && status.StatusCode != iana.StatusSuccess {
		if a.Status == iana.StatusSuccess {
			a.Status = status.StatusCode
		}
		return fmt.Errorf("the server gives an address with the status %d", status.StatusCode)
	}
	address, ok := netip.AddrFromSlice(given.IPv6Addr)
	if !ok || !isHost(address) {
		return fmt.Errorf("the server gives the address %s, which no host can have", given.IPv6Addr)
	}
	if given.PreferredLifetime > given.ValidLifetime {
		return errors.New("the server gives an address that is preferred for longer than valid")
	}
	if given.ValidLifetime == 0 {
		a.Lease.Address, a.Ended = netip.PrefixFrom(address, 128), true
		return nil
	}
	if given.ValidLifetime < dhcp.MinTime {
		return fmt.Errorf(
			"the server gives a lease of %s; the shortest that is used has %s",
			given.ValidLifetime,
			dhcp.MinTime,
		)
	}
	if ia.T1 > ia.T2 && ia.T2 > 0 {
		return errors.New("the server gives a T1 after T2")
	}
	a.Lease.Address = netip.PrefixFrom(address, 128)
	a.Valid, a.Preferred = finite(given.ValidLifetime), finite(given.PreferredLifetime)
	a.times(ia.T1, ia.T2, given.PreferredLifetime == 0)
	return nil
}

// times sets when the lease is prolonged. Times that are missing or after the end are replaced
// (RFC 8415, sections 14.2 and 21.4).
func (a *Answer) times(t1, t2 time.Duration, deprecated bool) {
	if a.Valid == 0 {
		return
	}
	base := a.Preferred
	if base == 0 || deprecated {
		base = a.Valid
	}
	a.Rebind, a.Renew = finite(t2), finite(t1)
	if a.Rebind == 0 || a.Rebind >= a.Valid || a.Rebind <= a.Valid/8 {
		a.Rebind = base * 8 / 10
	}
	if a.Renew == 0 || a.Renew >= a.Rebind || a.Renew < a.Valid/8 {
		a.Renew = min(base/2, a.Rebind*5/8)
	}
	least := dhcp.MinTime / 8
	a.Renew, a.Rebind = max(a.Renew, least), max(a.Rebind, 2*least)
}

// infinite is a lifetime without an end.
const infinite = math.MaxUint32 * time.Second

func finite(d time.Duration) time.Duration {
	if d >= infinite {
		return 0
	}
	return d
}

// isHost reports whether a server may give an address to a host.
func isHost(a netip.Addr) bool {
	return a.Is6() && !a.Is4In6() && a.IsGlobalUnicast() && a.Zone() == ""
}

// servers returns the name servers that can be asked.
func servers(given []net.IP) []netip.Addr {
	var list []netip.Addr
	for _, ip := range given {
		a, ok := netip.AddrFromSlice(ip)
		if ok && dhcp.IsServer6(a) && !slices.Contains(list, a) && len(list) < dhcp.MaxDNS {
			list = append(list, a)
		}
	}
	return list
}

func search(message *dhcpv6.Message) []string {
	if labels := message.Options.DomainSearchList(); labels != nil {
		return dhcp.Domains(labels.Labels)
	}
	return nil
}
