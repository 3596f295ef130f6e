// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
)

// health is the answer to /healthz and gRPC health; a test can turn it.
type health struct {
	failing atomic.Bool
	grpc    *grpchealth.Server
}

func newHealth() *health { return &health{grpc: grpchealth.NewServer()} }

func (h *health) set(ok bool) {
	h.failing.Store(!ok)
	status := grpc_health_v1.HealthCheckResponse_SERVING
	if !ok {
		status = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	h.grpc.SetServingStatus("", status)
}

func (s *Server) startGRPC(port uint16) (func(context.Context) error, error) {
	listener, err := net.Listen("tcp", wildcard(port))
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(s.noteCall))
	grpc_health_v1.RegisterHealthServer(server, s.health.grpc)
	return func(ctx context.Context) error {
		defer context.AfterFunc(ctx, server.Stop)()
		return server.Serve(listener)
	}, nil
}

// noteCall records the caller. The kubelet lets a gRPC probe name a service,
// which serves tests as the mark of whose probe it is; the health state is the
// same for all of them.
func (s *Server) noteCall(
	ctx context.Context,
	req any,
	info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	text := info.FullMethod
	if check, ok := req.(*grpc_health_v1.HealthCheckRequest); ok {
		text = check.GetService()
		req = &grpc_health_v1.HealthCheckRequest{}
	}
	if from, ok := peer.FromContext(ctx); ok {
		s.seen.add("grpc", from.Addr, text)
	}
	return handler(ctx, req)
}
