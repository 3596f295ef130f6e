// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/test/testtool/load"
	"github.com/alioth-net/alioth/test/testtool/offload"
	"github.com/alioth-net/alioth/test/testtool/report"
)

func streamCommand() *cobra.Command {
	var interval, limit time.Duration
	var stopFile, begunFile string
	command := &cobra.Command{
		Use:   "stream ADDRESS:PORT",
		Short: "Send numbered records over one TCP connection and check that they come back",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			ctx, cancel := within(command.Context(), limit)
			defer cancel()
			ctx, cancelFile := untilFile(ctx, stopFile)
			defer cancelFile()
			return printJSON(command.OutOrStdout(), load.Stream(ctx, args[0], interval, func() { touch(begunFile) }))
		},
	}
	flags := command.Flags()
	flags.DurationVar(&interval, "interval", time.Millisecond, "time between two records of 1 kB")
	flags.DurationVar(&limit, "duration", 0, "end after this time; 0: no limit")
	flags.StringVar(&stopFile, "stop-file", "", "end when this file exists")
	flags.StringVar(&begunFile, "begun-file", "", "make this file when the first record is back")
	return command
}

func connectionsCommand() *cobra.Command {
	var perSecond int
	var limit time.Duration
	var stopFile, begunFile string
	command := &cobra.Command{
		Use:   "connections ADDRESS:PORT",
		Short: "Open new TCP connections with one request each to an echo server, and tell each that is lost",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if perSecond < 1 {
				return fmt.Errorf("rate %d: want at least 1 per second", perSecond)
			}
			ctx, cancel := within(command.Context(), limit)
			defer cancel()
			ctx, cancelFile := untilFile(ctx, stopFile)
			defer cancelFile()
			return printJSON(command.OutOrStdout(), load.Connections(ctx, args[0], perSecond, func() { touch(begunFile) }))
		},
	}
	flags := command.Flags()
	flags.IntVar(&perSecond, "rate", 100, "new connections per second")
	flags.DurationVar(&limit, "duration", 0, "end after this time; 0: no limit")
	flags.StringVar(&stopFile, "stop-file", "", "end when this file exists")
	flags.StringVar(&begunFile, "begun-file", "", "make this file when the first answer is back")
	return command
}

func converseCommand() *cobra.Command {
	var interval time.Duration
	var text, stopFile, begunFile string
	command := &cobra.Command{
		Use:   "converse TARGET...",
		Short: "Send numbered lines over one socket to each echo server, and tell who has answered",
		Long: "Send numbered lines over one socket to each echo server, and tell who has answered.\n" +
			"Targets: tcp://ADDR:PORT udp://ADDR:PORT, and datagrams://ADDR:PORT for a socket that is not connected, IPv6 in brackets.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, targets []string) error {
			ctx, cancel := untilFile(command.Context(), stopFile)
			defer cancel()
			var begun sync.WaitGroup
			begun.Add(len(targets))
			go func() {
				begun.Wait()
				touch(begunFile)
			}()
			results := make([]report.Conversation, len(targets))
			var group errgroup.Group
			for i, target := range targets {
				group.Go(func() (err error) {
					results[i], err = load.Converse(ctx, target, text, interval, begun.Done)
					return err
				})
			}
			if err := group.Wait(); err != nil {
				return err
			}
			return printJSON(command.OutOrStdout(), results)
		},
	}
	flags := command.Flags()
	flags.DurationVar(&interval, "interval", 50*time.Millisecond, "time between an answer and the next line")
	flags.StringVar(&text, "text", "hello", "what each line begins with")
	flags.StringVar(&stopFile, "stop-file", "", "end when this file exists")
	flags.StringVar(&begunFile, "begun-file", "", "make this file when each has had an answer")
	return command
}

type loadFunc func(ctx context.Context, target string, duration time.Duration, size int) (report.Load, error)

func loadCommand() *cobra.Command {
	var duration time.Duration
	var size int
	command := &cobra.Command{
		Use:   "load tcp|udp ADDRESS:PORT",
		Short: "Send as fast as possible to a sink and print the rate that it received",
		Args:  cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			run, ok := map[string]loadFunc{"tcp": load.TCP, "udp": load.UDP}[args[0]]
			if !ok {
				return fmt.Errorf("unknown protocol %q: want tcp or udp", args[0])
			}
			result, err := run(command.Context(), args[1], duration, size)
			if err != nil {
				return err
			}
			return printJSON(command.OutOrStdout(), result)
		},
	}
	command.Flags().DurationVar(&duration, "duration", 2*time.Second, "how long to send")
	command.Flags().IntVar(&size, "size", 128<<10, "bytes of one write, or of one datagram's payload")
	return command
}

func latencyCommand() *cobra.Command {
	var duration time.Duration
	command := &cobra.Command{
		Use:   "latency ADDRESS:PORT",
		Short: "Send one byte and wait for one byte over TCP, again and again, and print the rate and times",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			result, err := load.RoundTrip(command.Context(), args[0], duration)
			if err != nil {
				return err
			}
			return printJSON(command.OutOrStdout(), result)
		},
	}
	command.Flags().DurationVar(&duration, "duration", 2*time.Second, "how long to go on")
	return command
}

func connectCommand() *cobra.Command {
	var duration time.Duration
	var first uint16
	var ports int
	command := &cobra.Command{
		Use:   "connect-latency ADDRESS:PORT",
		Short: "Open a TCP connection, send one byte, wait for one and reset it, again and again, and print the rate and times",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			result, err := load.Connect(command.Context(), args[0], duration, first, ports)
			if err != nil {
				return err
			}
			return printJSON(command.OutOrStdout(), result)
		},
	}
	command.Flags().DurationVar(&duration, "duration", 2*time.Second, "how long to go on")
	command.Flags().Uint16Var(&first, "first-port", 20000, "the first of the source ports")
	command.Flags().IntVar(&ports, "ports", 0, "take so many source ports in turn; 0: leave them to the kernel")
	return command
}

func echoCommand() *cobra.Command {
	var duration time.Duration
	command := &cobra.Command{
		Use:   "echo-latency ADDRESS",
		Short: "Send an ICMP echo request and wait for the reply, again and again, and print the rate and times",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			target, err := netip.ParseAddr(args[0])
			if err != nil {
				return fmt.Errorf("target: %w", err)
			}
			result, err := load.Echo(command.Context(), target, duration)
			if err != nil {
				return err
			}
			return printJSON(command.OutOrStdout(), result)
		},
	}
	command.Flags().DurationVar(&duration, "duration", 2*time.Second, "how long to go on")
	return command
}

func offloadCommand() *cobra.Command {
	var device string
	command := &cobra.Command{
		Use:   "offload on|off",
		Short: "Turn a device's segmentation offloads on or off",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			switch args[0] {
			case "on", "off":
				return offload.SetSegmentation(device, args[0] == "on")
			}
			return fmt.Errorf("unknown setting %q: want on or off", args[0])
		},
	}
	command.Flags().StringVar(&device, "device", "eth0", "device")
	return command
}
