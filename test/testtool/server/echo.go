// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
)

// echoConn answers each line with "<name> <peer> <line>".
func (s *Server) echoConn(conn *net.TCPConn) error {
	scanner := bufio.NewScanner(conn)
	for scanner.Scan() {
		s.seen.add("tcp", conn.RemoteAddr(), scanner.Text())
		if _, err := fmt.Fprintf(conn, "%s %s %s\n", s.config.Name, conn.RemoteAddr(), scanner.Text()); err != nil {
			return err
		}
	}
	return scanner.Err()
}

// echoDatagram answers a datagram in the same form.
func (s *Server) echoDatagram(conn *net.UDPConn, peer *net.UDPAddr, data []byte) {
	text := strings.TrimSpace(string(data))
	s.seen.add("udp", peer, text)
	// The client misses an answer that can't be sent, and reports it.
	_, _ = conn.WriteToUDP(fmt.Appendf(nil, "%s %s %s\n", s.config.Name, peer, text), peer)
}

// streamConn returns every byte, without buffering longer than a read.
func streamConn(conn *net.TCPConn) error {
	if err := conn.SetNoDelay(true); err != nil {
		return err
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}, make([]byte, 64<<10))
	return err
}
