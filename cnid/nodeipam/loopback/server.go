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

	"github.com/alioth-net/alioth/cnid/system/periodic"
)

const (
	// headerWait and idleWait limit the cost of a connection without a request.
	headerWait = 10 * time.Second
	idleWait   = 2 * time.Minute
	// stopWait limits how long requests may take while the server ends.
	stopWait = 2 * time.Second
)

// Config has the settings and functions of a Server. All fields are required.
type Config struct {
	Places Places
	// Pods is the cgroup2 directory of all pods.
	Pods string
	// InPod reports that the server is in a pod itself, and so in Pods.
	InPod bool
	// TokenFile has the token of Handler (Token).
	TokenFile string
	Handler   func(token string) http.Handler
	// Guarded returns true once the programs at the cgroup of pods are attached, or false
	// when ctx ends.
	Guarded func(ctx context.Context) bool
	// Every is the wait of a server that has failed: another program may have the port.
	Every time.Duration
	// Recheck is the interval between a running server's checks that it can tell pods from
	// others.
	Recheck time.Duration
	Log     *slog.Logger
}

// Server serves the API on loopback.
type Server struct {
	cfg Config

	mu      sync.Mutex
	failure error
}

// New returns a Server that does not listen yet.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// Problem explains why it does not serve, or is "".
func (s *Server) Problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		return ""
	}
	return Unserved(s.failure)
}

// Unsafe returns why it can't tell pods from others, or nil.
func (s *Server) Unsafe() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.failure, errMisplaced) {
		return s.failure
	}
	return nil
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

// Unserved returns the problem of a node whose API is not served by TCP.
func Unserved(err error) string {
	return fmt.Sprintf("the node IPAM API is not served by TCP, only at its socket: %v", err)
}

// failed stores why the server does not serve, and logs a new reason.
func (s *Server) failed(err error) {
	s.mu.Lock()
	news := err != nil && (s.failure == nil || s.failure.Error() != err.Error())
	s.failure = err
	s.mu.Unlock()
	if news {
		s.cfg.Log.Warn("can't serve the node IPAM API by TCP; trying again", "error", err)
	}
}

// serve serves at all places until ctx ends, or one fails.
func (s *Server) serve(ctx context.Context) error {
	token, err := Token(s.cfg.TokenFile)
	if err != nil {
		return err
	}
	listeners, err := s.listen(ctx)
	if err != nil {
		return err
	}
	s.failed(nil)
	server := &http.Server{
		Handler: s.cfg.Handler(token), ReadHeaderTimeout: headerWait, IdleTimeout: idleWait,
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
	group.Go(func() error { return s.watch(serving) })
	group.Go(func() error {
		<-serving.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
		defer cancel()
		return errors.Join(server.Shutdown(bounded), server.Close())
	})
	return group.Wait()
}

// watch returns an error once pods can't be told from others any more, or nil when ctx ends.
func (s *Server) watch(ctx context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	periodic.Run(ctx, s.cfg.Recheck, nil, func() {
		if failed := s.probe(ctx); failed != nil && ctx.Err() == nil {
			err = failed
			stop()
		}
	})
	return err
}

// listen opens the listeners, each behind its gate. Without a cgroup of pods it opens none.
func (s *Server) listen(ctx context.Context) (list []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range list {
				l.Close()
			}
			list = nil
		}
	}()
	if err := s.probe(ctx); err != nil {
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

// listenAt opens a listener without MPTCP. With MPTCP, a client could add flows from other
// sockets to its connection.
func listenAt(ctx context.Context, at netip.AddrPort) (net.Listener, error) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false)
	return plain.Listen(ctx, "tcp", at.String())
}
