// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rest serves the node IPAM API (package wire) over HTTP. It reads requests,
// bounds and checks them, and writes answers; a Service attaches pods.
//
// Each request has exactly one answer in JSON, with a code of package wire. The HTTP
// status is 200 for all that a client could have asked, whatever the result; clients of
// CNS expect that.
package rest

import (
	"context"
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// Service has the attachments of the node for other CNI plugins. Its methods may be called
// concurrently, also for one key. They end soon after ctx does: a request whose ctx ends
// either has its attachments or leaves none.
//
// An error that will pass is a *NotReady, or the error of a context. Others are a *Failure, or
// have the default code of their path.
type Service interface {
	// Request attaches a container, or finds it attached, and returns its interfaces: at
	// least one. The same key has the same result.
	Request(ctx context.Context, r Request) ([]answer.Interface, error)
	// Release detaches the attachments of a key. An unknown key is not an error. A Release that
	// comes during the Request of its key wins over it.
	Release(ctx context.Context, key Key) error
	// Collect releases the attachments of a network configuration that are not among
	// valid, if their pods are gone too. Names that valid lacks are "".
	Collect(ctx context.Context, network string, valid []Key) error
	// Attachments returns the attachments of a container, or all for "".
	Attachments(ctx context.Context, containerID string) ([]Attachment, error)
	// Ready returns nil, or why no pod can be attached on this node.
	Ready(ctx context.Context) error
}

// Key names an attachment by ContainerID and IfName.
//
// In a release IfName may be "": then PodInterfaceID names the attachment, in the container
// if there is ContainerID. If both are "", it is everything of the container.
type Key struct {
	ContainerID string
	IfName      string
	// PodInterfaceID is the client's name of the attachment, "" without one.
	PodInterfaceID string
}

// Names reports whether a release of k means the attachment.
func (k Key) Names(attachment Key) bool {
	switch {
	case k.ContainerID == "" && k.PodInterfaceID == "", k.ContainerID != "" && k.ContainerID != attachment.ContainerID:
		return false
	case k.ContainerID != "" && k.IfName != "":
		return k.IfName == attachment.IfName
	}
	return k.PodInterfaceID == "" || k.PodInterfaceID == attachment.PodInterfaceID
}

// Pod names a pod.
type Pod struct {
	Namespace, Name string
	// UID is "" from clients that do not send it.
	UID string
}

// Request is a request for the interfaces of a pod.
type Request struct {
	Key
	Pod Pod
	// Desired are the addresses that the client wants. The service refuses with
	// wire.AddressUnavailable if the pod has others.
	Desired []netip.Addr
	// Network is the name of the network configuration, NetnsPath a file that refers to
	// the network namespace. Both are "" from clients that do not send them.
	Network, NetnsPath string
}

// Attachment is the result of one request.
type Attachment struct {
	Key
	Pod Pod
	// State is wire.Assigned, wire.PendingRelease or wire.PendingProgramming, since Since.
	State      wire.IPState
	Since      time.Time
	Interfaces []answer.Interface
}

// NotReady is the error of a request that will succeed later.
type NotReady struct {
	// Reason is the text for users: the missing object or fact and, if known, the remedy.
	Reason string
}

// Error returns the message of the answer.
func (e *NotReady) Error() string { return wire.NotReadyPrefix + e.Reason }

// Failure is the error of a request that will not succeed by itself.
type Failure struct {
	// Code is one of the codes of the operation.
	Code wire.ReturnCode
	// Reason is the text for users.
	Reason string
}

// Error returns the message of the answer.
func (e *Failure) Error() string { return e.Reason }
