// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/test/testtool/agent"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/testtool/server"
)

func serveCommand() *cobra.Command {
	config := server.Config{}
	verbose := false
	command := &cobra.Command{
		Use:   "serve",
		Short: "Answer over TCP, UDP, HTTP and gRPC, IPv4 and IPv6, with the own name and the peer's address",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if config.Name == "" {
				name, err := os.Hostname()
				if err != nil {
					return fmt.Errorf("find own name (or give --name): %w", err)
				}
				config.Name = name
			}
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			serveCommands(command.Context(), log)
			return server.New(config, log).Run(command.Context())
		},
	}
	flags := command.Flags()
	flags.StringVar(&config.Name, "name", "", "name to answer with (default: the host name)")
	flags.Uint16Var(&config.Echo, "echo", report.PortEcho, "TCP and UDP port that answers lines and datagrams; 0: off")
	flags.Uint16Var(&config.Stream, "stream", report.PortStream, "TCP port that returns every byte; 0: off")
	flags.Uint16Var(&config.Sink, "sink", report.PortSink, "TCP and UDP port that swallows load; 0: off")
	flags.Uint16Var(&config.RoundTrip, "round-trip", report.PortRoundTrip, "TCP port that returns single bytes; 0: off")
	flags.Uint16Var(&config.HTTP, "http", report.PortHTTP, "HTTP port; 0: off")
	flags.Uint16Var(&config.GRPC, "grpc", report.PortGRPC, "gRPC health port; 0: off")
	flags.BoolVar(&verbose, "verbose", false, "log every connection that ends with an error")
	return command
}

// serveCommands lets an agent run commands beside, if the container is to have one. Its
// commands have none.
func serveCommands(ctx context.Context, log *slog.Logger) {
	path := os.Getenv(agent.PathVariable)
	if path == "" {
		return
	}
	if err := os.Unsetenv(agent.PathVariable); err != nil {
		log.Error("no commands are served", "error", err)
		return
	}
	go func() {
		if err := agent.Serve(ctx, path); err != nil {
			log.Error("no commands are served", "error", err)
		}
	}()
}

func pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pause",
		Short: "Do nothing until told to end",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			serveCommands(command.Context(), slog.Default())
			<-command.Context().Done()
			return nil
		},
	}
}
