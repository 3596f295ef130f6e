// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// Identity has what a client tells of itself in each message.
type Identity struct {
	Hardware net.HardwareAddr
	ClientID []byte
	Hostname string
}

// Kind is a type of message.
type Kind = dhcpv4.MessageType

// Types of messages.
const (
	Discover = dhcpv4.MessageTypeDiscover
	Offer    = dhcpv4.MessageTypeOffer
	Request  = dhcpv4.MessageTypeRequest
	Decline  = dhcpv4.MessageTypeDecline
	ACK      = dhcpv4.MessageTypeAck
	NAK      = dhcpv4.MessageTypeNak
	Release  = dhcpv4.MessageTypeRelease
)

// Message is a message to servers.
type Message struct {
	Kind Kind
	// Transaction is the number that the answer repeats (xid).
	Transaction uint32
	// Elapsed is since the client began to ask.
	Elapsed time.Duration
	// Client is the address that the client has and can be reached at (ciaddr), Requested
	// the one that it would have (option 50), Server the chosen server (option 54).
	Client, Requested, Server netip.Addr
	// Unicast is the server that the message goes to, from the address of the client. If it
	// is zero, the message is broadcast.
	Unicast netip.Addr
}

// maxSize is how large a message from a server may be: what fits a frame (option 57).
const maxSize = 1472

var wanted = []dhcpv4.OptionCode{
	dhcpv4.OptionSubnetMask, dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer,
	dhcpv4.OptionDomainName, dhcpv4.OptionDNSDomainSearchList, dhcpv4.OptionInterfaceMTU,
	dhcpv4.OptionIPAddressLeaseTime, dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue,
}

// Encode returns a message as the payload of UDP.
func (id Identity) Encode(m Message) []byte {
	packet := &dhcpv4.DHCPv4{
		OpCode:       dhcpv4.OpcodeBootRequest,
		HWType:       iana.HWTypeEthernet,
		ClientHWAddr: id.Hardware,
		NumSeconds:   uint16(min(max(m.Elapsed/time.Second, 0), 0xffff)),
		Options:      dhcpv4.Options{},
	}
	binary.BigEndian.PutUint32(packet.TransactionID[:], m.Transaction)
	if m.Client.IsValid() {
		packet.ClientIPAddr = m.Client.AsSlice()
	}
	packet.UpdateOption(dhcpv4.OptMessageType(m.Kind))
	packet.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionClientIdentifier, id.ClientID))
	if m.Requested.IsValid() {
		packet.UpdateOption(dhcpv4.OptRequestedIPAddress(m.Requested.AsSlice()))
	}
	if m.Server.IsValid() {
		packet.UpdateOption(dhcpv4.OptServerIdentifier(m.Server.AsSlice()))
	}
	if m.Kind == Discover || m.Kind == Request {
		packet.UpdateOption(dhcpv4.OptParameterRequestList(wanted...))
		packet.UpdateOption(dhcpv4.OptMaxMessageSize(maxSize))
		if id.Hostname != "" {
			packet.UpdateOption(dhcpv4.OptHostName(id.Hostname))
		}
	}
	return packet.ToBytes()
}

// Answer is a message of a server.
type Answer struct {
	Kind        Kind
	Transaction uint32
	Server      netip.Addr
	// Lease has no times yet. Time, Renew and Rebind are the lifetimes that the server gave,
	// with sound values for those that are missing or contradict each other; 0 is forever.
	Lease               dhcp.Lease
	Time, Renew, Rebind time.Duration
	// Unusable tells why the client can't use what the server gives.
	Unusable error
}

// errForeign is of messages that are not for this client.
var errForeign = errors.New("the message is not for this client")

// Decode reads the payload of UDP. It returns an error unless the message answers this client.
func (id Identity) Decode(payload []byte) (Answer, error) {
	packet, err := dhcpv4.FromBytes(payload)
	if err != nil {
		return Answer{}, err
	}
	if packet.OpCode != dhcpv4.OpcodeBootReply || !bytes.Equal(packet.ClientHWAddr, id.Hardware) {
		return Answer{}, errForeign
	}
	// RFC 6842: an answer has the identifier of the client, or none.
	if sent := packet.Options.Get(dhcpv4.OptionClientIdentifier); sent != nil && !bytes.Equal(sent, id.ClientID) {
		return Answer{}, errForeign
	}
	a := Answer{Kind: packet.MessageType(), Transaction: binary.BigEndian.Uint32(packet.TransactionID[:])}
	a.Server, err = address(packet.Options.Get(dhcpv4.OptionServerIdentifier))
	if err != nil || !isHost(a.Server) {
		return Answer{}, errors.New("the message names no server")
	}
	switch a.Kind {
	case NAK:
	case Offer, ACK:
		a.Unusable = a.read(packet)
	default:
		return Answer{}, fmt.Errorf("a server does not send messages of type %d", a.Kind)
	}
	return a, nil
}
