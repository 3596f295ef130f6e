// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/system/netns"
)

// Config has the settings and functions of a Server.
type Config struct {
	Manager *attachment.Manager
	Metrics *Metrics
	Log     *slog.Logger
}

// Server carries out CNI commands. Its methods may be called concurrently.
type Server struct {
	cfg Config
}

// New returns a Server for a reconciled Manager.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// Do carries out one command. When ctx ends, it ends too, and undoes the steps of an
// unfinished ADD.
func (s *Server) Do(ctx context.Context, req cniapi.Request) cniapi.Response {
	result, err := s.do(ctx, req)
	resp := cniapi.Response{Result: result}
	if err != nil {
		resp = cniapi.Response{Error: cniError(err)}
		s.cfg.Log.Warn("CNI command failed", "command", quote.Name(req.Command), "containerID", quote.Name(req.ContainerID),
			"ifName", quote.Name(req.IfName), "code", resp.Error.Code, "error", err)
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
		return nil, s.cfg.Manager.Remove(ctx, cmd.key)
	case "CHECK":
		return nil, s.check(ctx, cmd)
	case "GC":
		return nil, s.gc(ctx, cmd)
	case "STATUS":
		return nil, s.status()
	}
	return nil, types.NewError(
		types.ErrInvalidEnvironmentVariables,
		fmt.Sprintf("unknown command %s", quote.Text(req.Command)),
		"",
	)
}

// cniError returns an error with the CNI code for it.
func cniError(err error) *types.Error {
	var coded *types.Error
	var notReady *attachment.NotReady
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &notReady):
		return types.NewError(cniapi.CodeNotReady, notReady.Error(), "")
	case errors.Is(err, context.Canceled):
		return types.NewError(cniapi.CodeNotReady, "network is not ready - the command was cancelled: "+err.Error(), "")
	case errors.Is(err, netns.ErrGone), errors.Is(err, attachment.ErrNamespaceAlive):
		return types.NewError(types.ErrInvalidNetNS, err.Error(), "")
	case errors.Is(err, attachment.ErrAttached), errors.Is(err, attachment.ErrCaller):
		return types.NewError(types.ErrInvalidNetworkConfig, err.Error(), "")
	}
	return types.NewError(cniapi.CodeFailed, err.Error(), "")
}
