// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/system/peer"
)

const (
	// maxRequest limits the size of a request, in bytes.
	maxRequest = 1 << 20
	// stopWait limits how long a stopping server waits for commands to undo their
	// steps.
	stopWait = 10 * time.Second
)

// Handler returns the HTTP handler of the protocol (package cniapi), to be
// mounted at cniapi.PathV1.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.Error(w, "want POST", http.StatusMethodNotAllowed)
			return
		}
		// The body has to be read to its end: only from then on net/http detects that
		// the connection was closed.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		var req cniapi.Request
		if err = errors.Join(err, json.Unmarshal(body, &req)); err != nil {
			http.Error(w, "decode request: "+err.Error(), http.StatusBadRequest)
			return
		}
		resp := s.Do(r.Context(), req)
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(resp); err != nil {
			s.cfg.Log.Debug(
				"the client does not read the answer",
				"command",
				quote.Name(req.Command),
				"containerID",
				quote.Name(req.ContainerID),
				"error",
				err,
			)
		}
	})
}

// Listen makes the socket at path, for root only. It replaces an earlier daemon's socket
// in one step, and stays when the listener is closed.
func Listen(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the socket's directory: %w", err)
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove an unfinished socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("put socket %s in place: %w", path, err), l.Close())
	}
	return l, nil
}

// Serve serves h to processes that control the node (package peer) on l, which is the socket at path,
// until ctx ends, and writes the result of ready to disk meanwhile. When ctx ends, it ends waiting
// commands, and waits while they undo their steps.
func Serve(
	ctx context.Context,
	l net.Listener,
	path string,
	h http.Handler,
	ready func() error,
	log *slog.Logger,
) error {
	var heart sync.WaitGroup
	defer heart.Wait()
	beating, stop := context.WithCancel(ctx)
	defer stop()
	heart.Go(func() { heartbeat(beating, path, ready, log) })
	srv := &http.Server{
		Handler:           peer.Only(h, log),
		ConnContext:       peer.Judged,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	stopped := make(chan error, 1)
	go func() {
		<-beating.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
		defer cancel()
		stopped <- srv.Shutdown(bounded)
	}()
	err := srv.Serve(l)
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", path, err)
	}
	return <-stopped
}

// heartbeat writes the daemon's state (cniapi.State) until ctx ends, and then
// once more: from there on the plugin binary counts the time.
func heartbeat(ctx context.Context, path string, ready func() error, log *slog.Logger) {
	tick := time.NewTicker(cniapi.HeartbeatInterval)
	defer tick.Stop()
	for {
		if err := writeState(path, ready()); err != nil {
			log.Warn("can't write the daemon's state; STATUS may call the node unavailable during a restart", "error", err)
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func writeState(path string, problem error) error {
	now, err := cniapi.Now()
	if err != nil {
		return err
	}
	state := cniapi.State{Alive: now}
	if problem != nil {
		state.Unavailable = unavailable(problem).Msg
	}
	return cniapi.WriteState(path, state)
}
