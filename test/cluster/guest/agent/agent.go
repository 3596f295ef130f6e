// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent acts for the lab in a node that is a virtual machine: it runs commands and daemons
// there, and connects to sockets. It speaks HTTP on the node's address, and serves every client:
// only the lab and its pods are on that network.
package agent

import "net/netip"

// Port is the agent's TCP port.
const Port = 7077

// Paths of requests. Each is a POST with JSON as its body, except pathDial.
const (
	pathRun   = "/run"   // a Command, answered by Frames
	pathStart = "/start" // a process.Spec
	pathStop  = "/stop"  // a process.Spec; only the name counts
	pathDial  = "/dial"  // ?socket=FILE; the connection then leads to the socket
)

// Command runs to its end while the client waits. It is killed, with all that it has started, when
// the client goes.
type Command struct {
	// Args are the program, which is looked up in PATH, and its arguments.
	Args []string
	// Env is the whole environment as KEY=value.
	Env []string
}

// Frame is a piece of the answer to a Command, one line of JSON. The last frame has Ended.
type Frame struct {
	Stdout []byte `json:",omitempty"`
	Stderr []byte `json:",omitempty"`
	Ended  bool   `json:",omitempty"`
	// Failure is how the command ended, if not well.
	Failure string `json:",omitempty"`
}

// Address is where the agent of a node listens.
func Address(node netip.Addr) string { return netip.AddrPortFrom(node, Port).String() }
