// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/testtool/wire"
)

// virtualMAC is the one MAC of every gateway and neighbour in a VPC.
const virtualMAC = "02:a1:07:00:00:01"

// frameFlags are the text forms of a wire.Frame.
type frameFlags struct {
	sourceMAC, targetMAC   string
	source, target         string
	sourcePort, targetPort uint16
	text                   string
}

func (f *frameFlags) register(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.sourceMAC, "source-mac", virtualMAC, "source MAC of the frame")
	flags.StringVar(&f.targetMAC, "target-mac", virtualMAC, "target MAC of the frame")
	flags.StringVar(&f.source, "source", "", "source address")
	flags.StringVar(&f.target, "target", "", "target address")
	flags.Uint16Var(&f.sourcePort, "source-port", 40000, "UDP source port")
	flags.Uint16Var(&f.targetPort, "target-port", report.PortEcho, "UDP target port")
	flags.StringVar(&f.text, "text", "raw", "payload")
}

func (f *frameFlags) encode() ([]byte, error) {
	source, err := netip.ParseAddr(f.source)
	if err != nil {
		return nil, fmt.Errorf("read --source: %w", err)
	}
	target, err := netip.ParseAddr(f.target)
	if err != nil {
		return nil, fmt.Errorf("read --target: %w", err)
	}
	sourceMAC, err := net.ParseMAC(f.sourceMAC)
	if err != nil {
		return nil, fmt.Errorf("read --source-mac: %w", err)
	}
	targetMAC, err := net.ParseMAC(f.targetMAC)
	if err != nil {
		return nil, fmt.Errorf("read --target-mac: %w", err)
	}
	return wire.Frame{
		SourceMAC: sourceMAC, TargetMAC: targetMAC, Payload: []byte(f.text),
		Source: netip.AddrPortFrom(source, f.sourcePort), Target: netip.AddrPortFrom(target, f.targetPort),
	}.Encode()
}

func rawCommand() *cobra.Command {
	command := &cobra.Command{Use: "raw", Short: "Send crafted packets"}
	command.AddCommand(rawFrameCommand(), rawVXLANCommand(), rawBytesCommand())
	return command
}

func rawFrameCommand() *cobra.Command {
	frame := &frameFlags{}
	var device string
	var count int
	command := &cobra.Command{
		Use:   "frame",
		Short: "Put an Ethernet frame with a UDP datagram on a device",
		Args:  cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			data, err := frame.encode()
			if err != nil {
				return err
			}
			for range count {
				if err := wire.Send(device, data); err != nil {
					return err
				}
			}
			return nil
		},
	}
	frame.register(command)
	command.Flags().StringVar(&device, "device", "eth0", "device to send on")
	command.Flags().IntVar(&count, "count", 1, "how often to send it")
	return command
}

func rawBytesCommand() *cobra.Command {
	var device string
	var untilPort uint16
	var limit time.Duration
	command := &cobra.Command{
		Use:   "bytes HEX...",
		Short: "Put Ethernet frames on a device as they are, and print what comes back, one line for each frame",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, texts []string) error {
			var frames [][]byte
			for _, text := range texts {
				frame, err := hex.DecodeString(text)
				if err != nil {
					return fmt.Errorf("read frame: %w", err)
				}
				frames = append(frames, frame)
			}
			ctx, cancel := within(command.Context(), limit)
			defer cancel()
			back, err := wire.Exchange(ctx, device, frames, untilPort)
			for _, frame := range back {
				fmt.Fprintln(command.OutOrStdout(), hex.EncodeToString(frame))
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&device, "device", "eth0", "device to send on")
	flags.Uint16Var(&untilPort, "until-port", 0, "listen until a UDP datagram from this port comes; 0: do not listen")
	flags.DurationVar(&limit, "timeout", 10*time.Second, "fail after this time")
	return command
}
