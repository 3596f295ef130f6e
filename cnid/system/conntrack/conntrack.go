// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conntrack lists the UDP flows of the kernel's connection tracking, deletes them, and
// returns the number of flows that the kernel can track.
package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Flow is an entry of connection tracking.
type Flow struct {
	// Client asked at one address, and is answered from another where the destination is
	// translated.
	Client         netip.Addr
	Asked, Answers netip.AddrPort
	// row is the entry as the kernel sent it, with its own header.
	row []byte
}

// Conn is a socket to connection tracking of one network namespace.
type Conn struct{ socket *netlink.Conn }

// Open returns a socket to connection tracking of the calling thread's network namespace, for
// the caller to close.
func Open() (Conn, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return Conn{}, fmt.Errorf("open a socket of connection tracking: %w", err)
	}
	return Conn{conn}, nil
}

// Close closes the socket.
func (c Conn) Close() error { return c.socket.Close() }

// UDP lists the UDP flows of a family (AF_INET, AF_INET6) that were opened to a port, or to
// any with 0. The kernel selects them.
func (c Conn) UDP(family uint8, port uint16) ([]Flow, error) {
	attributes, err := selection(port)
	if err != nil {
		return nil, fmt.Errorf("encode which UDP flows to list: %w", err)
	}
	rows, err := c.socket.Execute(request(nl.IPCTNL_MSG_CT_GET, netlink.Dump, append(headerOf(family), attributes...)))
	if err != nil {
		return nil, fmt.Errorf("list UDP flows: %w", err)
	}
	flows := make([]Flow, 0, len(rows))
	for _, row := range rows {
		flow, err := parseFlow(row.Data)
		if err != nil {
			return nil, fmt.Errorf("read a UDP flow: %w", err)
		}
		flows = append(flows, flow)
	}
	return flows, nil
}

// Remove deletes an entry. It returns no error for an entry that has ended.
func (c Conn) Remove(flow Flow) error {
	_, err := c.socket.Execute(request(nl.IPCTNL_MSG_CT_DELETE, netlink.Acknowledge, flow.row))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete a UDP flow to %v: %w", flow.Asked, err)
	}
	return nil
}

func request(operation int, flags netlink.HeaderFlags, data []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_CTNETLINK<<8 | operation),
			Flags: netlink.Request | flags,
		},
		Data: data,
	}
}

// headerOf is a struct nfgenmsg.
func headerOf(family uint8) []byte { return []byte{family, unix.NFNETLINK_V0, 0, 0} }

const headerLen = 4

// The kernel's selection of entries, of linux/netfilter/nfnetlink_conntrack.h (Linux 5.8):
// the fields of a tuple that the flags name have to be equal.
const (
	ctaFilter          = 25
	ctaFilterOrigFlags = 1

	compareProtocol        = 1 << 3 // CTA_FILTER_F_CTA_PROTO_NUM
	compareDestinationPort = 1 << 5 // CTA_FILTER_F_CTA_PROTO_DST_PORT
)

// selection encodes the selection of UDP.
func selection(port uint16) ([]byte, error) {
	flags := uint32(compareProtocol)
	attributes := netlink.NewAttributeEncoder()
	attributes.Nested(nl.CTA_TUPLE_ORIG, func(tuple *netlink.AttributeEncoder) error {
		tuple.Nested(nl.CTA_TUPLE_PROTO, func(proto *netlink.AttributeEncoder) error {
			proto.Uint8(nl.CTA_PROTO_NUM, unix.IPPROTO_UDP)
			if port != 0 {
				flags |= compareDestinationPort
				proto.Bytes(nl.CTA_PROTO_DST_PORT, binary.BigEndian.AppendUint16(nil, port))
			}
			return nil
		})
		return nil
	})
	attributes.Nested(ctaFilter, func(filter *netlink.AttributeEncoder) error {
		filter.Uint32(ctaFilterOrigFlags, flags)
		return nil
	})
	return attributes.Encode()
}

// parseFlow reads an entry as the kernel sent it.
func parseFlow(row []byte) (Flow, error) {
	if len(row) < headerLen {
		return Flow{}, errors.New("it has no header")
	}
	attributes, err := netlink.NewAttributeDecoder(row[headerLen:])
	if err != nil {
		return Flow{}, err
	}
	attributes.ByteOrder = binary.BigEndian
	var asked, answers tuple
	for attributes.Next() {
		switch attributes.Type() {
		case nl.CTA_TUPLE_ORIG:
			attributes.Nested(asked.read)
		case nl.CTA_TUPLE_REPLY:
			attributes.Nested(answers.read)
		}
	}
	return Flow{
		Client:  asked.from,
		Asked:   netip.AddrPortFrom(asked.to, asked.toPort),
		Answers: netip.AddrPortFrom(answers.from, answers.fromPort),
		row:     row,
	}, attributes.Err()
}

// tuple is one direction of a flow.
type tuple struct {
	from, to         netip.Addr
	fromPort, toPort uint16
}

func (t *tuple) read(attributes *netlink.AttributeDecoder) error {
	for attributes.Next() {
		switch attributes.Type() {
		case nl.CTA_TUPLE_IP:
			attributes.Nested(t.readAddresses)
		case nl.CTA_TUPLE_PROTO:
			attributes.Nested(t.readPorts)
		}
	}
	return nil
}

func (t *tuple) readAddresses(attributes *netlink.AttributeDecoder) error {
	for attributes.Next() {
		switch attributes.Type() {
		case nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC:
			t.from = addrOf(attributes.Bytes())
		case nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST:
			t.to = addrOf(attributes.Bytes())
		}
	}
	return nil
}

func (t *tuple) readPorts(attributes *netlink.AttributeDecoder) error {
	for attributes.Next() {
		switch attributes.Type() {
		case nl.CTA_PROTO_SRC_PORT:
			t.fromPort = attributes.Uint16()
		case nl.CTA_PROTO_DST_PORT:
			t.toPort = attributes.Uint16()
		}
	}
	return nil
}

// addrOf returns the address of these bytes, the zero address for another number of bytes.
func addrOf(ip []byte) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
