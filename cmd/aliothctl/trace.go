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

	"github.com/alioth-net/alioth/cnid/cniapi"
	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/cnid/trace"
)

// hopWithin bounds how long a node is waited for.
const hopWithin = 30 * time.Second

// errStopped says that the packet would not get through.
var errStopped = errors.New("the packet would not get through")

// traceOptions are what a trace is asked about.
type traceOptions struct {
	proto, inter string
	size         int
}

func traceCommand() *cobra.Command {
	var o traceOptions
	reach, format := defaultAccess(), asText
	cmd := &cobra.Command{
		Use:   "trace NAMESPACE/POD IP[:PORT]",
		Short: "Say how far a pod's packet to an address would get, and why",
		Long: `Say how far the first packet of a flow from a pod to an address would get: hop by
hop, what each node's maps know of it, what its programs would do, and where and
why it would stop.

No packet is sent. On each node, the programs that are in use there are run upon
the maps that are in use, by the kernel, with a packet made for it: so the answer is
theirs. It leaves nothing behind: no counter, no flow, no drop. It ends where
Alioth's decisions end: at a pod's interface, or in the node's own stack, whose
routes and foreign packet filters are not asked. For the way back, trace from the
other side.

With a port it asks about TCP, without one about an echo request (ping).

Exit status: 0 when the packet gets through, 1 when it is dropped, 2 when that
can't be told.`,
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
			hops, err := c.trace(cmd.Context(), q)
			if format == asJSON {
				err = errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(hops))
			} else if len(hops) > 0 {
				err = errors.Join(err, trace.Write(cmd.OutOrStdout(), hops))
			}
			if err == nil && !trace.Delivered(hops) {
				cmd.SilenceErrors = true
				return errStopped
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.proto, "proto", "", "tcp, udp or icmp; tcp with a port and icmp without one, unless given")
	flags.StringVar(&o.inter, "interface", "", "interface of the pod; its first, unless given")
	flags.IntVar(&o.size, "size", 0, "size of the IP packet in bytes; that of its headers, unless given")
	reach.addFlags(cmd)
	addFormat(cmd, &format)
	complete(cmd, &reach.kubeconfig)
	return cmd
}

// question reads what is asked.
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
		return 0, fmt.Errorf("tcp and udp want a port, icmp none: %s to %s", proto, to)
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

// trace asks the pod's node, and those after it.
func (c *cluster) trace(ctx context.Context, q nodestatus.Question) ([]nodestatus.Hop, error) {
	namespace, name, _ := strings.Cut(q.Pod, "/")
	var pod corev1.Pod
	if err := c.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
		return nil, fmt.Errorf("get pod %s: %w", q.Pod, err)
	}
	if pod.Spec.NodeName == "" {
		return nil, fmt.Errorf("pod %s is on no node yet", q.Pod)
	}
	return trace.Walk(ctx, c.hop, pod.Spec.NodeName, q)
}

// hop asks the daemon of a node.
func (c *cluster) hop(ctx context.Context, node string, q nodestatus.Question) (hop nodestatus.Hop, err error) {
	ctx, cancel := context.WithTimeout(ctx, hopWithin)
	defer cancel()
	text, err := json.Marshal(q)
	if err != nil {
		return hop, err
	}
	var out bytes.Buffer
	if err := c.runOn(ctx, node, &out, "hop", string(text)); err != nil {
		return hop, err
	}
	if err := json.Unmarshal(out.Bytes(), &hop); err != nil {
		return hop, fmt.Errorf("read the answer of node %s: %w", node, err)
	}
	return hop, nil
}

// hopCommand is what trace runs on each node.
func hopCommand() *cobra.Command {
	socket := cniapi.DefaultSocket
	cmd := &cobra.Command{
		Use:    "hop QUESTION",
		Short:  "Say as JSON what this node would do with a packet: what trace asks of each node",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var q nodestatus.Question
			if err := json.Unmarshal([]byte(args[0]), &q); err != nil {
				return fmt.Errorf("read question: %w", err)
			}
			hop, err := nodestatus.FetchHop(cmd.Context(), socket, q)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(hop)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", socket, "socket of the node's daemon")
	return cmd
}
