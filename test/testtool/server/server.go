// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server is the answering side of the test tool: echo over TCP, UDP and HTTP with
// the names of server and client, gRPC health, and the far end of the load, latency and
// stream clients.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"golang.org/x/sync/errgroup"
)

// Config of a server. A port of 0 turns that service off.
type Config struct {
	// Name that the server gives in its answers; without spaces.
	Name string
	// Echo is the port of the TCP and UDP echo.
	Echo uint16
	// Stream is the TCP port that returns every byte.
	Stream uint16
	// Sink is the TCP and UDP port that swallows load.
	Sink uint16
	// RoundTrip is the TCP port that returns single bytes at once.
	RoundTrip uint16
	// HTTP and GRPC are the ports of those services.
	HTTP, GRPC uint16
}

// service starts one listener and returns the function that serves it until
// its context ends.
type service struct {
	name  string
	port  uint16
	start func(port uint16) (func(context.Context) error, error)
}

// Server answers on all ports of its Config.
type Server struct {
	config Config
	log    *slog.Logger
	seen   *journal
	health *health
	sink   *sink
}

// New returns a server that is not yet listening.
func New(config Config, log *slog.Logger) *Server {
	return &Server{config: config, log: log, seen: &journal{}, health: newHealth(), sink: newSink()}
}

// Run listens on every port, IPv4 and IPv6, and serves until ctx ends. If it can't have a port, it
// returns an error and serves nothing.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, service := range s.services() {
		if service.port == 0 {
			continue
		}
		serve, err := service.start(service.port)
		if err != nil {
			return fmt.Errorf("listen for %s: %w", service.name, err)
		}
		s.log.Info("listening", "service", service.name, "port", service.port)
		group.Go(func() error { return serve(ctx) })
	}
	return group.Wait()
}

func (s *Server) services() []service {
	return []service{
		{"tcp echo", s.config.Echo, s.acceptor(s.echoConn)},
		{"udp echo", s.config.Echo, s.datagrams(s.echoDatagram)},
		{"stream", s.config.Stream, s.acceptor(streamConn)},
		{"tcp sink", s.config.Sink, s.acceptor(s.sink.conn)},
		{"udp sink", s.config.Sink, s.sink.startUDP},
		{"round trip", s.config.RoundTrip, s.acceptor(roundTripConn)},
		{"http", s.config.HTTP, s.startHTTP},
		{"grpc", s.config.GRPC, s.startGRPC},
	}
}

func wildcard(port uint16) string { return ":" + strconv.Itoa(int(port)) }

// acceptor serves each TCP connection with handle, in a goroutine of its own.
func (s *Server) acceptor(handle func(*net.TCPConn) error) func(uint16) (func(context.Context) error, error) {
	return func(port uint16) (func(context.Context) error, error) {
		listener, err := net.Listen("tcp", wildcard(port))
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			defer context.AfterFunc(ctx, func() { listener.Close() })()
			return s.accept(ctx, listener.(*net.TCPListener), handle)
		}, nil
	}
}

func (s *Server) accept(ctx context.Context, listener *net.TCPListener, handle func(*net.TCPConn) error) error {
	for {
		conn, err := listener.AcceptTCP()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the listener was closed to end this
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go func() {
			defer conn.Close()
			if err := handle(conn); err != nil && ctx.Err() == nil {
				s.log.Debug("connection ended", "peer", conn.RemoteAddr().String(), "error", err)
			}
		}()
	}
}

// datagrams hands each UDP datagram to handle, which may answer.
func (s *Server) datagrams(
	handle func(conn *net.UDPConn, peer *net.UDPAddr, data []byte),
) func(uint16) (func(context.Context) error, error) {
	return func(port uint16) (func(context.Context) error, error) {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: int(port)})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			return receive(conn, handle)
		}, nil
	}
}

func receive(conn *net.UDPConn, handle func(*net.UDPConn, *net.UDPAddr, []byte)) error {
	buffer := make([]byte, 65536)
	for {
		n, peer, err := conn.ReadFromUDP(buffer)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			// An ICMP error to an earlier answer surfaces here; the socket
			// goes on.
			continue
		}
		handle(conn, peer, buffer[:n])
	}
}

// peerIP returns the address of a peer without port and without the v4-mapped form.
func peerIP(addr net.Addr) string {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}
