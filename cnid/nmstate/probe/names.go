// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// publicName is a name that every resolver of the Internet knows.
const publicName = "root-servers.net."

const (
	dnsPort = "53"
	// queryAgain is how long an answer is awaited before the query is sent again.
	queryAgain = time.Second
	// maxAnswer is the size of the longest answer over UDP without extensions (RFC 1035).
	maxAnswer = 512
)

// askServer returns nil if a name server answers at all; with known, if it knows whether
// publicName exists.
func askServer(ctx context.Context, server string, known bool) error {
	code, err := query(ctx, net.JoinHostPort(server, dnsPort))
	if err != nil {
		return fmt.Errorf("%s: %w", server, err)
	}
	if known && code != dnsmessage.RCodeSuccess && code != dnsmessage.RCodeNameError {
		return fmt.Errorf("%s answers %s", server, code)
	}
	return nil
}

// query asks a name server for publicName until there is an answer or ctx ends, and returns the
// code of the answer.
func query(ctx context.Context, address string) (dnsmessage.RCode, error) {
	id := make([]byte, 2)
	_, _ = rand.Read(id) // It never fails.
	message := dnsmessage.Message{
		Header: dnsmessage.Header{ID: binary.BigEndian.Uint16(id), RecursionDesired: true},
		Questions: []dnsmessage.Question{
			{Name: dnsmessage.MustNewName(publicName), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
		},
	}
	text, err := message.Pack()
	if err != nil {
		return 0, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	for {
		if err := conn.SetDeadline(time.Now().Add(queryAgain)); err != nil {
			return 0, err
		}
		_, err := conn.Write(text)
		var code dnsmessage.RCode
		if err == nil {
			code, err = awaitAnswer(conn, message.ID)
		}
		if err == nil || ctx.Err() != nil || !isTimeout(err) {
			return code, err
		}
	}
}

// awaitAnswer returns the code of the answer to the query with an ID.
func awaitAnswer(conn net.Conn, id uint16) (dnsmessage.RCode, error) {
	buffer := make([]byte, maxAnswer)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return 0, err
		}
		var parser dnsmessage.Parser
		if header, err := parser.Start(buffer[:n]); err == nil && header.Response && header.ID == id {
			return header.RCode, nil
		}
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(interface{ Timeout() bool })
	return ok && timeout.Timeout()
}
