// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netfilter keeps the node's part of the translation to shadow addresses: the
// table "alioth" (family inet) of nf_tables in the current network namespace.
//
//	raw prerouting   the tunnel bypasses conntrack; only pods, the node's own
//	                 interface and the node itself may use shadow addresses or send
//	                 to the default VPC
//	raw output       the tunnel bypasses conntrack
//	nat prerouting   ports of the node that lead to pods, and frontends of Services
//	nat output       the same for the node's own programs
//	filter output    the node itself sends nothing to the port of the tunnel, and to
//	                 shadow addresses only replies, packets of ports that lead to
//	                 pods, and packets that the datapath marked as the kubelet's
//	filter input     from a pod only replies, and packets that a program marked as
//	                 a flow to a shared service or as one of the default VPC
//	filter forward   from a pod only packets that a program marked; to the default
//	                 VPC only shared services and backends on other nodes; from
//	                 either nothing that conntrack calls invalid
//	nat postrouting  shadow addresses never leave the node. A packet to a port of
//	                 the node reaches the pod with the node's shadow as source, and
//	                 another node with this node's address in the default VPC
//	filter postrouting  drops packets that still have a shadow address where they
//	                 leave the node
//
// A ruleset.State describes the table completely; Apply replaces it in one
// transaction, or leaves it alone when the kernel already holds it. Every drop
// has a named counter, which Counters reads. The rules drop or accept only
// traffic of Alioth's own devices and ranges. Another table may drop a packet
// that this one accepts.
package netfilter
