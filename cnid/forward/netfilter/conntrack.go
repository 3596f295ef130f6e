// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

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

// udpFlow is an entry of connection tracking.
type udpFlow struct {
	// client asked at one address, and is answered from another where the destination is
	// translated.
	client         netip.Addr
	asked, answers netip.AddrPort
	// row is the entry as the kernel sent it, with its own header.
	row []byte
}

// conntrack is a socket to connection tracking of the calling thread's network namespace.
type conntrack struct{ *netlink.Conn }

func openConntrack() (conntrack, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return conntrack{}, fmt.Errorf("open a socket of connection tracking: %w", err)
	}
	return conntrack{conn}, nil
}

// udp lists the UDP flows of a family (AF_INET, AF_INET6) that were opened to a port, or to
// any with 0. The kernel selects them.
func (c conntrack) udp(family uint8, port uint16) ([]udpFlow, error) {
	attributes, err := selection(port)
	if err != nil {
		return nil, fmt.Errorf("encode which UDP flows to list: %w", err)
	}
	rows, err := c.Execute(request(nl.IPCTNL_MSG_CT_GET, netlink.Dump, append(headerOf(family), attributes...)))
	if err != nil {
		return nil, fmt.Errorf("list UDP flows: %w", err)
	}
	flows := make([]udpFlow, 0, len(rows))
	for _, row := range rows {
		flow, err := parseFlow(row.Data)
		if err != nil {
			return nil, fmt.Errorf("read a UDP flow: %w", err)
		}
		flows = append(flows, flow)
	}
	return flows, nil
}

// remove deletes an entry. One that has ended is no error.
func (c conntrack) remove(flow udpFlow) error {
	_, err := c.Execute(request(nl.IPCTNL_MSG_CT_DELETE, netlink.Acknowledge, flow.row))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete a UDP flow to %v: %w", flow.asked, err)
	}
	return nil
}

func request(operation int, flags netlink.HeaderFlags, data []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_CTNETLINK<<8 | operation), Flags: netlink.Request | flags},
		Data:   data,
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

// selection encodes what udp selects.
func selection(port uint16) ([]byte, error) {
	flags := uint32(compareProtocol)
	attributes := netlink.NewAttributeEncoder()
	attributes.Nested(nl.CTA_TUPLE_ORIG, func(tuple *netlink.AttributeEncoder) error {
		tuple.Nested(nl.CTA_TUPLE_PROTO, func(proto *netlink.AttributeEncoder) error {
			proto.Uint8(nl.CTA_PROTO_NUM, unix.IPPROTO_UDP)
			if port != 0 {
				flags |= compareDestinationPort
				proto.Bytes(nl.CTA_PROTO_DST_PORT, portOf(port))
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
func parseFlow(row []byte) (udpFlow, error) {
	if len(row) < headerLen {
		return udpFlow{}, errors.New("it has no header")
	}
	attributes, err := netlink.NewAttributeDecoder(row[headerLen:])
	if err != nil {
		return udpFlow{}, err
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
	return udpFlow{client: asked.from, asked: netip.AddrPortFrom(asked.to, asked.toPort), answers: netip.AddrPortFrom(answers.from, answers.fromPort), row: row}, attributes.Err()
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
