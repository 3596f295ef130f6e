// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/trace"
)

// answerWithin is the timeout for the answer of a node.
const answerWithin = 30 * time.Second

// errStopped reports that the packet would be dropped.
var errStopped = errors.New("the packet would be dropped")

// traceOptions describe the packet of a trace.
type traceOptions struct {
	proto, inter string
	size         int
}

func traceCommand() *cobra.Command {
	var o traceOptions
	reach, format := defaultAccess(), options.Text
	cmd := &cobra.Command{
		Use:   "trace NAMESPACE/POD IP[:PORT]",
		Short: "Trace the first packet of a flow from a pod to an address, node by node",
		Long: `Trace the first packet of a flow from a pod to an address. For each node on the
path, print the matching entries of its maps, the action of its programs, and where
and why the packet is dropped.

The command sends no packet. On each node, the kernel runs the attached programs
with the current maps and a test packet. The run changes no counter, flow or sample
of drops. The trace ends where Alioth's decisions end: at a pod's interface, or in
the node's own stack, whose routes and other packet filters it does not evaluate.
For the replies, run a trace from the other side.

With a port the packet is TCP, without one an echo request (ping).

Exit status: 0 if the packet arrives, 1 if it is dropped, 2 if the trace fails.`,
		Example: `  aliothctl trace shop/cart-7d9f 10.10.1.20:80
  aliothctl trace shop/cart-7d9f 10.96.0.10:53 --proto udp`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := o.question(args[0], args[1])
			if err != nil {
				return err
			}
			c, err := reach.open()
			if err != nil {
				return err
			}
			steps, err := c.trace(cmd.Context(), q)
			if format == options.JSON {
				err = errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(steps))
			} else if len(steps) > 0 {
				err = errors.Join(err, trace.Write(cmd.OutOrStdout(), steps))
			}
			if err == nil && !trace.Delivered(steps) {
				cmd.SilenceErrors = true
				return errStopped
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.proto, "proto", "", "tcp, udp or icmp; default: tcp with a port, icmp without")
	flags.StringVar(&o.inter, "interface", "", "interface of the pod; default: its first one")
	flags.IntVar(&o.size, "size", 0, "size of the IP packet in bytes; default: that of its headers")
	reach.addFlags(cmd)
	options.AddFormat(cmd, &format)
	options.Complete(cmd, &reach.kubeconfig)
	return cmd
}

// question parses the arguments.
func (o traceOptions) question(pod, target string) (q nodestatus.Question, err error) {
	namespace, name, ok := strings.Cut(pod, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return q, fmt.Errorf("pod %q: want NAMESPACE/POD", pod)
	}
	q = nodestatus.Question{Pod: pod, Interface: o.inter, Size: o.size}
	if ip, err := netip.ParseAddr(strings.Trim(target, "[]")); err == nil {
		q.To = netip.AddrPortFrom(ip.Unmap(), 0)
	} else if q.To, err = netip.ParseAddrPort(target); err != nil {
		return q, fmt.Errorf("%q: want IP or IP:PORT, and [IP]:PORT for IPv6", target)
	}
	const maxSize = 1 << 14
	if o.size < 0 || o.size > maxSize {
		return q, fmt.Errorf("--size %d: want 0 to %d", o.size, maxSize)
	}
	q.Proto, err = o.protocol(q.To)
	return q, err
}

func (o traceOptions) protocol(to netip.AddrPort) (uint8, error) {
	proto := strings.ToLower(o.proto)
	if proto == "" {
		proto = map[bool]string{true: "tcp", false: "icmp"}[to.Port() != 0]
	}
	if (proto == "icmp") != (to.Port() == 0) {
		return 0, fmt.Errorf("%s to %s: tcp and udp want a port, icmp has none", proto, to)
	}
	switch proto {
	case "tcp":
		return unix.IPPROTO_TCP, nil
	case "udp":
		return unix.IPPROTO_UDP, nil
	case "icmp":
		if to.Addr().Is6() {
			return unix.IPPROTO_ICMPV6, nil
		}
		return unix.IPPROTO_ICMP, nil
	}
	return 0, fmt.Errorf("--proto %q: want tcp, udp or icmp", o.proto)
}

// trace queries the pod's node, and the following nodes of the path.
func (c *cluster) trace(ctx context.Context, q nodestatus.Question) ([]nodestatus.PacketTrace, error) {
	namespace, name, _ := strings.Cut(q.Pod, "/")
	var pod corev1.Pod
	if err := c.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
		return nil, fmt.Errorf("get pod %s: %w", q.Pod, err)
	}
	if pod.Spec.NodeName == "" {
		return nil, fmt.Errorf("pod %s is on no node yet", q.Pod)
	}
	return trace.Walk(ctx, c.packetTrace, pod.Spec.NodeName, q)
}

// packetTrace queries the daemon of a node.
func (c *cluster) packetTrace(
	ctx context.Context,
	node string,
	q nodestatus.Question,
) (step nodestatus.PacketTrace, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	text, err := json.Marshal(q)
	if err != nil {
		return step, err
	}
	var out bytes.Buffer
	if err := c.runOn(ctx, node, &out, "packet-trace", string(text)); err != nil {
		return step, err
	}
	if err := json.Unmarshal(out.Bytes(), &step); err != nil {
		return step, fmt.Errorf("read the answer of node %s: %w", node, err)
	}
	return step, nil
}

// packetTraceCommand returns the command that trace runs on each node.
func packetTraceCommand() *cobra.Command {
	socket := cniapi.DefaultSocket
	cmd := &cobra.Command{
		Use: "packet-trace QUESTION",
		// An aliothctl of the last release runs it by that name.
		Aliases: []string{"hop"},
		Short:   "Print as JSON what this node would do with a packet; trace runs it on each node",
		Hidden:  true,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var q nodestatus.Question
			if err := json.Unmarshal([]byte(args[0]), &q); err != nil {
				return fmt.Errorf("read question: %w", err)
			}
			step, err := nodestatus.FetchTrace(cmd.Context(), socket, q)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(step)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", socket, "socket of the node's daemon")
	return cmd
}
