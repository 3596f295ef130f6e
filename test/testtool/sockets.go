// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/testtool/socket"
)

func socketCommand() *cobra.Command {
	var limit time.Duration
	var count int
	command := &cobra.Command{
		Use:   "socket TARGET...",
		Short: "Ask each target once, and print what the kernel says of the other end, one JSON line for each socket",
		Long: "Ask each target once, and print what the kernel says of the other end, one JSON line for each socket, in the order given.\n" +
			"Targets: tcp://ADDR:PORT udp://ADDR:PORT and, from a socket that is not connected, sendto://ADDR:PORT. IPv6 in brackets;\n" +
			"[::ffff:IPv4] is asked from a socket for IPv6. The exit code is 0 whatever the answers are.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, targets []string) error {
			for _, target := range targets {
				for range count {
					if err := printJSON(command.OutOrStdout(), askSocket(target, limit)); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	command.Flags().DurationVar(&limit, "timeout", 2*time.Second, "how long a system call may wait")
	command.Flags().IntVar(&count, "count", 1, "how many sockets ask each target, one after the other")
	command.AddCommand(holdCommand(), sharedCommand())
	return command
}

func sharedCommand() *cobra.Command {
	var limit time.Duration
	command := &cobra.Command{
		Use:   "shared ADDR:PORT...",
		Short: "Ask all targets from one socket for datagrams before reading a reply, and print one JSON line for each reply",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, texts []string) error {
			var targets []netip.AddrPort
			for _, text := range texts {
				target, err := netip.ParseAddrPort(text)
				if err != nil {
					return fmt.Errorf("read target: %w", err)
				}
				targets = append(targets, target)
			}
			replies, err := socket.AskAll(targets, "hello", limit)
			if err != nil {
				return err
			}
			for _, reply := range replies {
				if err := printJSON(command.OutOrStdout(), reply); err != nil {
					return err
				}
			}
			return nil
		},
	}
	command.Flags().DurationVar(&limit, "timeout", 2*time.Second, "how long a system call may wait")
	return command
}

func askSocket(target string, limit time.Duration) report.Socket {
	s, err := socket.Open(target, limit)
	if err != nil {
		return report.Socket{Target: target, Error: err.Error()}
	}
	defer s.Close()
	return s.Ask("hello")
}

func holdCommand() *cobra.Command {
	var duration time.Duration
	var count int
	var begunFile, stopFile string
	var limit time.Duration
	command := &cobra.Command{
		Use:   "hold TARGET...",
		Short: "Ask each target once, keep the sockets until they are ended or told to stop, and ask again with those that are left",
		Long: "Ask each target once, keep the sockets until they are ended or told to stop, and ask again with those that are left.\n" +
			"Prints one JSON line for each socket: who answered first, and how it went on.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, targets []string) error {
			ctx, cancel := within(command.Context(), duration)
			defer cancel()
			ctx, cancelFile := untilFile(ctx, stopFile)
			defer cancelFile()
			for _, held := range hold(ctx, limit, slices.Repeat(targets, count), func() { touch(begunFile) }) {
				if err := printJSON(command.OutOrStdout(), held); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.DurationVar(&duration, "duration", 0, "end after this time; 0: no limit")
	flags.DurationVar(&limit, "timeout", 2*time.Second, "how long a system call may wait")
	flags.IntVar(&count, "count", 1, "how many sockets are held for each target")
	flags.StringVar(&begunFile, "begun-file", "", "make this file when all are answered")
	flags.StringVar(&stopFile, "stop-file", "", "end when this file exists")
	return command
}

// holdLook is how often a held socket looks whether it is to stop.
const holdLook = 100 * time.Millisecond

// hold holds sockets until the context ends, and calls begun when all have asked.
func hold(ctx context.Context, limit time.Duration, targets []string, begun func()) []report.Held {
	held, sockets := make([]report.Held, len(targets)), make([]*socket.Socket, len(targets))
	for i, target := range targets {
		s, err := socket.Open(target, limit)
		if err != nil {
			held[i].First = report.Socket{Target: target, Error: err.Error()}
			continue
		}
		defer s.Close()
		sockets[i], held[i].First = s, s.Ask("hello")
	}
	begun()
	var all sync.WaitGroup
	for i, s := range sockets {
		if s != nil {
			all.Go(func() { follow(ctx, s, &held[i]) })
		}
	}
	all.Wait()
	return held
}

// follow notes how a socket goes on.
func follow(ctx context.Context, s *socket.Socket, held *report.Held) {
	for ctx.Err() == nil {
		if err := s.Ended(holdLook); err != nil {
			held.Ended = err.Error()
			return
		}
	}
	again := s.Ask("hello again")
	held.Again = &again
}
