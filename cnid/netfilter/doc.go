// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netfilter keeps the node's half of the shadow door: the table
// "alioth" (family inet) of nf_tables in the current network namespace.
//
//	raw prerouting   the tunnel bypasses conntrack; nobody but a pod, the
//	                 node's own interface or the node itself may use a shadow
//	                 address or send to the default VPC
//	raw output       the tunnel bypasses conntrack
//	nat prerouting   ports of the node that lead to pods, and frontends of Services
//	nat output       the same for the node's own programs
//	filter output    from the node itself nothing to the port of the tunnel, and to
//	                 shadow addresses only answers, what a port leads to a pod, and
//	                 what the datapath takes for the kubelet's, by a mark
//	filter input     from a pod only a reply, and what a program marked as a
//	                 flow to a shared service or as one of the default VPC
//	filter forward   from a pod only what a program marked, and to the default
//	                 VPC only shared services and what another node has a backend for
//	                 from either nothing that conntrack calls invalid
//	nat postrouting  shadow addresses never leave the node; what comes to a
//	                 pod by a port of the node does so under the node's shadow, and
//	                 what goes on to another node under this one's address in the
//	                 default VPC
//	filter postrouting  what nobody has translated there, and still has a shadow
//	                 address, does not leave the node either
//
// A ruleset.State describes the table completely; Apply replaces it in one
// transaction, or leaves it alone when the kernel already holds it. Every drop
// has a named counter, which Counters reads. The rules only ever drop or
// accept traffic of Alioth's own devices and ranges, and accepting a packet
// here does not keep another table from dropping it.
package netfilter
