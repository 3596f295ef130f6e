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

	"github.com/alioth-net/alioth/test/testtool/probe"
	"github.com/alioth-net/alioth/test/testtool/report"
)

func probeCommand() *cobra.Command {
	var timeout time.Duration
	var text string
	var port uint16
	var count int
	command := &cobra.Command{
		Use:   "probe TARGET...",
		Short: "Ask many targets at once and print one JSON line for each, in the order given",
		Long: "Ask many targets at once and print one JSON line for each, in the order given.\n" +
			"Targets: icmp://ADDR tcp://ADDR:PORT connect://ADDR:PORT udp://ADDR:PORT http://ADDR:PORT/PATH, IPv6 in brackets.\n" +
			"Each is tried until it answers or the time is over. The exit code is 0 whatever the answers are.\n" +
			"With --count, each is asked so often, one attempt after the other, and has so many lines.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, targets []string) error {
			ctx := probe.WithSourcePort(probe.WithText(command.Context(), text), port)
			for _, results := range askAll(ctx, timeout, count, targets) {
				for _, result := range results {
					if err := printJSON(command.OutOrStdout(), result); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to try, with --count each attempt")
	command.Flags().StringVar(&text, "text", "", "line to send to TCP and UDP targets")
	command.Flags().Uint16Var(&port, "source-port", 0, "port to ask TCP, UDP and HTTP targets from; 0 is any")
	command.Flags().IntVar(&count, "count", 0, "ask each target so often, whether or not it answers")
	return command
}

// askAll returns the results of each target, in the order given.
func askAll(ctx context.Context, timeout time.Duration, count int, targets []string) [][]report.Probe {
	results := make([][]report.Probe, len(targets))
	var all sync.WaitGroup
	for i, target := range targets {
		all.Go(func() {
			if count == 0 {
				results[i] = []report.Probe{askWithin(ctx, timeout, target, probe.Ask)}
			}
			for range count {
				results[i] = append(results[i], askWithin(ctx, timeout, target, probe.AskOnce))
			}
		})
	}
	all.Wait()
	return results
}

func askWithin(
	ctx context.Context,
	timeout time.Duration,
	target string,
	ask func(context.Context, string) report.Probe,
) report.Probe {
	ctx, cancel := within(ctx, timeout)
	defer cancel()
	return ask(ctx, target)
}

func dialCommand() *cobra.Command {
	var timeout time.Duration
	var count int
	var text string
	command := &cobra.Command{
		Use:   "dial tcp|connect|udp|http|icmp ADDRESS",
		Short: "Ask one target until it answers; exit code 1 when it doesn't",
		Args:  cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			for range count {
				result := askWithin(probe.WithText(command.Context(), text), timeout, args[0]+"://"+args[1], probe.Ask)
				if err := printJSON(command.OutOrStdout(), result); err != nil {
					return err
				}
				if !result.OK {
					return errNegative
				}
			}
			return nil
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to try")
	command.Flags().IntVar(&count, "count", 1, "how many answers to ask for, one after the other")
	command.Flags().StringVar(&text, "text", "", "line to send over TCP and UDP")
	return command
}

func pingCommand() *cobra.Command {
	series := probe.Series{}
	var limit time.Duration
	var stopFile string
	command := &cobra.Command{
		Use:   "ping ADDRESS",
		Short: "Send ICMP echo requests and print what came back; exit code 1 when nothing did",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			target, err := netip.ParseAddr(args[0])
			if err != nil {
				return fmt.Errorf("read address: %w", err)
			}
			series.Target = target
			ctx, cancel := within(command.Context(), limit)
			defer cancel()
			ctx, cancelFile := untilFile(ctx, stopFile)
			defer cancelFile()
			result, err := probe.Ping(ctx, series)
			if err != nil {
				return err
			}
			if err := printJSON(command.OutOrStdout(), result); err != nil {
				return err
			}
			if result.Received == 0 {
				return errNegative
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.DurationVar(&series.Interval, "interval", time.Second, "time between two requests, for example 1ms")
	flags.IntVar(&series.Count, "count", 0, "number of requests; 0: until told to end")
	flags.DurationVar(&series.Wait, "wait", time.Second, "how long to wait for late replies")
	flags.DurationVar(&limit, "duration", 0, "end after this time; 0: no limit")
	flags.StringVar(&stopFile, "stop-file", "", "end when this file exists")
	return command
}

func awaitCommand() *cobra.Command {
	var interval, timeout time.Duration
	command := &cobra.Command{
		Use:   "await ADDRESS",
		Short: "Send ICMP echo requests until one is answered and print when that was",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			target, err := netip.ParseAddr(args[0])
			if err != nil {
				return fmt.Errorf("read address: %w", err)
			}
			ctx, cancel := within(command.Context(), timeout)
			defer cancel()
			at, err := probe.FirstReply(ctx, target, interval)
			if err != nil {
				return err
			}
			return printJSON(command.OutOrStdout(), report.FirstReply{Target: args[0], At: at})
		},
	}
	command.Flags().DurationVar(&interval, "interval", time.Millisecond, "time between two requests")
	command.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to try")
	return command
}
