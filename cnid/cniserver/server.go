// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/cniapi"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netns"
)

// Defaults of Config.
const (
	DefaultWait        = 60 * time.Second
	DefaultLockWait    = 30 * time.Second
	DefaultProgramWait = 30 * time.Second
	DefaultUndoWait    = 30 * time.Second
	DefaultLasting     = time.Minute
)

// Config is what a Server works with. All fields without a default are
// required.
type Config struct {
	Journal   *journal.Journal
	Drivers   attach.Drivers
	Decisions Decisions
	Datapath  Datapath
	Releaser  Releaser
	Metrics   *Metrics
	Log       *slog.Logger

	// Wait bounds how long an ADD waits for a decision; DefaultWait when 0.
	Wait time.Duration
	// LockWait bounds how long a command waits for another one of the same
	// container; DefaultLockWait when 0.
	LockWait time.Duration
	// ProgramWait bounds how long an ADD waits for the datapath;
	// DefaultProgramWait when 0.
	ProgramWait time.Duration
	// Lasting is for how long the journal must not have been written for STATUS
	// to fail; DefaultLasting when 0.
	Lasting time.Duration
	// UndoWait bounds undoing; DefaultUndoWait when 0. Undoing goes on when
	// the command's connection is closed.
	UndoWait time.Duration
}

// Server carries out CNI commands. Its methods may be called at the same time.
type Server struct {
	cfg   Config
	locks locks
}

// New returns a Server. Call Reconcile before it gets its first command.
func New(cfg Config) *Server {
	orDefault(&cfg.Wait, DefaultWait)
	orDefault(&cfg.LockWait, DefaultLockWait)
	orDefault(&cfg.ProgramWait, DefaultProgramWait)
	orDefault(&cfg.UndoWait, DefaultUndoWait)
	orDefault(&cfg.Lasting, DefaultLasting)
	return &Server{cfg: cfg, locks: locks{held: map[string]*lock{}}}
}

func orDefault(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}

// Do carries out one command. It ends early when ctx does, undoing what an
// unfinished ADD has done.
func (s *Server) Do(ctx context.Context, req cniapi.Request) cniapi.Response {
	result, err := s.do(ctx, req)
	resp := cniapi.Response{Result: result}
	if err != nil {
		resp = cniapi.Response{Error: cniError(err)}
		s.cfg.Log.Warn("CNI command failed", "command", req.Command, "containerID", req.ContainerID,
			"ifName", req.IfName, "code", resp.Error.Code, "error", err)
	}
	s.cfg.Metrics.command(req.Command, resp.Error)
	return resp
}

func (s *Server) do(ctx context.Context, req cniapi.Request) (json.RawMessage, error) {
	cmd, err := parse(req)
	if err != nil {
		return nil, err
	}
	switch req.Command {
	case "ADD":
		return s.add(ctx, cmd)
	case "DEL":
		return nil, s.del(ctx, cmd)
	case "CHECK":
		return nil, s.check(ctx, cmd)
	case "GC":
		return nil, s.gc(ctx, cmd)
	case "STATUS":
		return nil, s.status()
	}
	return nil, types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("unknown command %q", req.Command), "")
}

// lock makes commands of one container follow each other. The caller unlocks.
func (s *Server) lock(ctx context.Context, containerID string) (func(), error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.LockWait)
	defer cancel()
	unlock, err := s.locks.acquire(ctx, containerID)
	if err != nil {
		return nil, &NotReady{Reason: "another command for this container is still at work"}
	}
	return unlock, nil
}

// cniError gives an error the code that tells the runtime what to make of it.
func cniError(err error) *types.Error {
	var coded *types.Error
	var notReady *NotReady
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &notReady):
		return types.NewError(cniapi.CodeNotReady, notReady.Error(), "")
	case errors.Is(err, context.Canceled):
		return types.NewError(cniapi.CodeNotReady, "network is not ready - the command was cancelled: "+err.Error(), "")
	case errors.Is(err, netns.ErrGone):
		return types.NewError(types.ErrInvalidNetNS, err.Error(), "")
	}
	return types.NewError(cniapi.CodeFailed, err.Error(), "")
}
