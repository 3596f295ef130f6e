// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cniapi is the protocol between the CNI plugin binary and the node daemon:
// wire types, a client, and the state that the daemon writes to disk for the binary.
// It imports only the standard library, the CNI types and x/sys, because the plugin
// binary runs once per pod event and has to stay small.
//
// # Protocol
//
// One HTTP request per CNI command: POST PathV1 with a Request in JSON, over a
// unix socket that only root can open. The reply is status 200 with a Response
// in JSON, whether the command succeeded or not; any other status means that
// the protocols of the two differ. The plugin binary forwards its input without
// interpreting it; the daemon parses. A connection that closes before the reply
// cancels the command.
//
// # Versions
//
// Binary and daemon come from the same image, but are not replaced at the same
// instant: an init step replaces the binary before the daemon starts, and a
// container runtime may run either combination meanwhile. Within PathV1 fields
// are only ever added, both sides ignore fields they don't know, and an absent
// field means what it meant before the field existed. A change that doesn't
// fit gets a new path, and the daemon serves the old one for at least one more
// release. A daemon that doesn't know the path replies 404, which the client
// reports as CNI error 11: the daemon is about to be replaced.
package cniapi

import (
	"encoding/json"

	"github.com/containernetworking/cni/pkg/types"
)

// DefaultSocket is the socket of the daemon.
const DefaultSocket = "/run/alioth/cnid.sock"

// PathV1 is the HTTP path of the protocol's first version.
const PathV1 = "/cni/v1"

// CNI error codes that Alioth returns, beside the codes of package types (CNI 1.1, section
// "Well-known error codes").
const (
	// CodeNotReady: try again later.
	CodeNotReady = types.ErrTryAgainLater
	// CodeUnavailable: STATUS only; no ADD can succeed.
	CodeUnavailable = 50
	// CodeFailed: the command failed and was undone; the message has the cause.
	CodeFailed = 100
)

// Versions returns the CNI versions served, oldest first.
func Versions() []string { return []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"} }

// Request is one CNI command as the runtime gave it to the plugin binary.
type Request struct {
	// Command is ADD, DEL, CHECK, GC or STATUS.
	Command string `json:"command"`
	// ContainerID, Netns, IfName, Args and Path are the variables CNI_... of
	// those names, "" where the runtime set none.
	ContainerID string `json:"containerID,omitempty"`
	Netns       string `json:"netns,omitempty"`
	IfName      string `json:"ifName,omitempty"`
	Args        string `json:"args,omitempty"`
	Path        string `json:"path,omitempty"`
	// Config is the network configuration, byte for byte.
	Config []byte `json:"config"`
}

// Response is the reply to a Request: Error, or else Result.
type Response struct {
	// Result is the output of the plugin: for ADD a CNI result in the version that the
	// configuration asks for, nothing for other commands.
	Result json.RawMessage `json:"result,omitempty"`
	Error  *types.Error    `json:"error,omitempty"`
}
