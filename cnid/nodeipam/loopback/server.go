// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/cnid/periodic"
)

const (
	// headerWait and idleWait limit what a connection without a request costs.
	headerWait = 10 * time.Second
	idleWait   = 2 * time.Minute
	// stopWait limits how long requests may take while the server ends.
	stopWait = 2 * time.Second
)

// Config is what a Server works with. All fields are required.
type Config struct {
	Places Places
	// Pods is the cgroup2 directory of all pods.
	Pods    string
	Handler http.Handler
	// Guarded returns true once the programs at the cgroup of pods are attached, or false
	// when ctx ends.
	Guarded func(ctx context.Context) bool
	// Every is how long a server that has failed waits: another program may have the port.
	Every time.Duration
	Log   *slog.Logger
}

// Server serves the API on loopback.
type Server struct {
	cfg Config

	mu      sync.Mutex
	problem string
}

// New returns a Server that does not listen yet.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// Problem explains why it does not serve, or is "".
func (s *Server) Problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

// Run serves until ctx ends, and not before the port is guarded. After a failure it tries
// again: the API at the socket does not depend on it.
func (s *Server) Run(ctx context.Context) {
	if !s.cfg.Guarded(ctx) {
		return
	}
	attempt := func() {
		if err := s.serve(ctx); err != nil && ctx.Err() == nil {
			s.failed(err)
		}
	}
	attempt()
	periodic.Run(ctx, s.cfg.Every, nil, attempt)
}

// Unserved is the problem of a node whose API is not served by TCP.
func Unserved(err error) string {
	return fmt.Sprintf("the node IPAM API is not served by TCP, only at its socket: %v", err)
}

// failed stores why the server does not serve, and logs what is new.
func (s *Server) failed(err error) {
	text := ""
	if err != nil {
		text = Unserved(err)
	}
	s.mu.Lock()
	news := text != s.problem
	s.problem = text
	s.mu.Unlock()
	if news && err != nil {
		s.cfg.Log.Warn("can't serve the node IPAM API by TCP; trying again", "error", err)
	}
}

// serve serves at all places until ctx ends, or one fails.
func (s *Server) serve(ctx context.Context) error {
	listeners, err := s.listen(ctx)
	if err != nil {
		return err
	}
	s.failed(nil)
	server := &http.Server{
		Handler: s.cfg.Handler, ReadHeaderTimeout: headerWait, IdleTimeout: idleWait,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelWarn),
	}
	group, serving := errgroup.WithContext(ctx)
	for _, l := range listeners {
		group.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	group.Go(func() error {
		<-serving.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
		defer cancel()
		return errors.Join(server.Shutdown(bounded), server.Close())
	})
	return group.Wait()
}

// listen opens the listeners, each behind its gate. Without a cgroup of pods there is none.
func (s *Server) listen(ctx context.Context) (list []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range list {
				l.Close()
			}
			list = nil
		}
	}()
	if err := probe(ctx, s.cfg.Places.Addrs[0], s.cfg.Pods); err != nil {
		return nil, err
	}
	var lacking error
	for _, ip := range s.cfg.Places.Addrs {
		l, err := listenAt(ctx, netip.AddrPortFrom(ip, s.cfg.Places.Port))
		if s.cfg.Places.missing(err) {
			lacking = err
			continue
		}
		if err != nil {
			return list, err
		}
		list = append(list, &gate{Listener: l, pods: s.cfg.Pods, log: s.cfg.Log})
	}
	if len(list) == 0 {
		return nil, lacking
	}
	return list, nil
}

// listenAt opens a listener without MPTCP, by which a client could add flows from other
// sockets to its connection.
func listenAt(ctx context.Context, at netip.AddrPort) (net.Listener, error) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false)
	return plain.Listen(ctx, "tcp", at.String())
}
