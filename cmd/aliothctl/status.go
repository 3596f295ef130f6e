// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

func statusCommand() *cobra.Command {
	socket, pins := cniapi.DefaultSocket, programs.DefaultPinDir
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show this node's attachments and packet counters",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The parts fail independently: counters are readable without
			// the daemon.
			status, err := nodestatus.Fetch(cmd.Context(), socket)
			if err == nil {
				err = writeStatus(cmd.OutOrStdout(), status)
			}
			packets, drops, packetErr := readPackets(pins)
			return errors.Join(err, packetErr, writePackets(cmd.OutOrStdout(), packets),
				writeDropped(cmd.OutOrStdout(), drops, status.Attachments))
		},
	}
	cmd.Flags().StringVar(&socket, "socket", socket, "socket of the node's daemon")
	cmd.Flags().StringVar(&pins, "bpf-dir", pins, "directory of the pinned maps")
	onNode(cmd)
	return cmd
}

func writeStatus(out io.Writer, s nodestatus.Status) error {
	fmt.Fprintf(out, "Node %s: %s; MTU of pods %d\n", s.Node, inWords(s), s.PodMTU)
	if s.Problem != "" {
		fmt.Fprintf(out, "Problem: %s\n", s.Problem)
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(out, "Warning: %s\n", warning)
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "\nPOD\tINTERFACE\tVPC\tVNI\tADDRESSES\tSHADOWS\tHOST DEVICE\tKIND\tPHASE\n")
	for _, rec := range s.Attachments {
		writeAttachment(table, rec, rec.Phase)
	}
	for _, rec := range s.Releasing {
		writeAttachment(table, rec, "releasing")
	}
	return table.Flush()
}

func inWords(s nodestatus.Status) string {
	switch {
	case !s.Synced:
		return "reading from the API server"
	case !s.Programmed:
		return "not programmed yet"
	case s.Problem != "":
		return "programming fails at present"
	}
	return "programmed"
}

func writeAttachment(table io.Writer, rec nodestatus.Attachment, phase string) {
	var addrs, shadows []string
	for _, prefix := range rec.Addrs {
		addrs = append(addrs, prefix.String())
	}
	for _, shadow := range []fmt.Stringer{rec.Shadow4, rec.Shadow6} {
		if text := shadow.String(); text != "invalid IP" {
			shadows = append(shadows, text)
		}
	}
	network := rec.VPC
	if !rec.InVPC() {
		network = rec.Outside + " (no VPC)"
	}
	fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", rec.Pod, rec.IfName, network, rec.VNI,
		strings.Join(addrs, ","), strings.Join(shadows, ","), rec.HostIfName, rec.Kind, phase)
}

// packetRow is the number of packets with one outcome in one place.
type packetRow struct {
	fate, where, reason string
	packets             uint64
}

func readPackets(pins string) (rows []packetRow, drops []telemetry.DropCounter, err error) {
	reader, err := datapath.OpenReader(pins)
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close()
	counters, err := reader.Counters()
	if err != nil {
		return nil, nil, err
	}
	filtered, err := netfilter.Counters()
	drops, dropErr := reader.DropCounters()
	return packetRows(counters, filtered), drops, errors.Join(err, dropErr)
}

// packetRows returns the counters of the programs and of the host's packet filter. A reason has the
// same name as in docs/reference/reasons.md and in the metrics.
func packetRows(counters []telemetry.Counter, filtered []netfilter.Counter) (rows []packetRow) {
	for _, c := range counters {
		rows = append(rows, packetRow{fateOf(c.Reason), spaced(c.Direction.String()), c.Reason.String(), c.Packets})
	}
	for _, c := range filtered {
		if c.Packets > 0 {
			rows = append(rows, packetRow{dropped, "host filter", c.Reason, c.Packets})
		}
	}
	return rows
}

// Outcomes of packets. Every host sends routine packets unasked; they are dropped without harm.
const (
	dropped = "dropped"
	routine = "dropped, routine"
	passed  = "passed"
)

func fateOf(reason telemetry.Reason) string {
	switch {
	case reason.Routine():
		return routine
	case reason.Drop():
		return dropped
	}
	return passed
}

// writeDropped prints dropped packets by interface. It only counts routine ones.
func writeDropped(out io.Writer, drops []telemetry.DropCounter, attachments []nodestatus.Attachment) error {
	var left uint64
	drops = slices.DeleteFunc(slices.Clone(drops), func(d telemetry.DropCounter) bool {
		if d.Reason.Routine() {
			left += d.Packets
		}
		return d.Reason.Routine()
	})
	if left > 0 {
		defer fmt.Fprintf(
			out,
			"\n%d routine packets were dropped: MLD reports, router solicitations, duplicate address detection\n",
			left,
		)
	}
	if len(drops) == 0 {
		return nil
	}
	names := newWords(contents{}, 0, attachments)
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "\nDROPPED\tAT\tVPC\tWHERE\tREASON\n")
	for _, d := range drops {
		at, vpc := names.device(d.Ifindex), names.vpc(d.VNI)
		if d.Ifindex == 0 {
			at = "interfaces that are gone"
		}
		if d.VNI == 0 {
			vpc = "none"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", d.Packets, at, vpc, spaced(d.Direction.String()), d.Reason)
	}
	return table.Flush()
}

func spaced(name string) string { return strings.ReplaceAll(name, "_", " ") }

func writePackets(out io.Writer, rows []packetRow) error {
	if len(rows) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "\nPACKETS\tFATE\tWHERE\tREASON\n")
	for _, fate := range []string{dropped, routine, passed} {
		for _, row := range rows {
			if row.fate == fate {
				fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", row.packets, row.fate, row.where, row.reason)
			}
		}
	}
	return table.Flush()
}
