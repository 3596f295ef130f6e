// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attach says what it means to attach a pod to its network. Each kind
// of attachment is a package below this one.
package attach

import (
	"context"
	"errors"
	"net"
	"net/netip"
)

// Spec is one wanted interface in one pod.
type Spec struct {
	// ContainerID and IfName identify the attachment; IfName is also the
	// interface's name in the pod.
	ContainerID, IfName string
	// PodUID and Network, the name in the CNI configuration, are kept on the
	// node's side of the interface, for Attacher.List.
	PodUID, Network string
	// Description is for people who look at the node's devices.
	Description string
	// NetnsPath is a file that refers to the pod's network namespace. Detach
	// does without.
	NetnsPath string
	// Addrs with the subnets' prefix lengths, at most one per family, and the
	// Gateways in the same order.
	Addrs    []netip.Prefix
	Gateways []netip.Addr
	MAC      net.HardwareAddr
	// MTU in bytes.
	MTU int
	// AltName is a second name of the interface in the pod, or "".
	AltName string
}

// Link is what Attach made.
type Link struct {
	// HostIfName and HostIfindex are the host end's.
	HostIfName  string
	HostIfindex int
	// HostMAC is the host end's Ethernet address.
	HostMAC net.HardwareAddr
	// NetnsInode and NetnsCookie identify the pod's network namespace.
	NetnsInode, NetnsCookie uint64
}

// Found is an interface that is on the node, as Attach marked it.
type Found struct {
	ContainerID, IfName, PodUID, Network, NetnsPath string
	// MTU in bytes.
	MTU int
	// Link is zero in the pod's part where NetnsPath does not lead to the
	// interface's other end.
	Link Link
}

// Attacher makes and removes the interfaces of one kind. Its methods may be
// called at the same time for different attachments.
type Attacher interface {
	// HostName is the name that Attach gives to the host end. It depends on
	// nothing but ContainerID and IfName.
	HostName(containerID, ifName string) string
	// Attach makes the interface. Remains of an earlier attempt at the same
	// attachment are removed first; on an error nothing is left. An interface
	// of that name which something else put into the pod is an ErrExists.
	Attach(ctx context.Context, spec Spec) (Link, error)
	// Detach removes the interface. One that isn't there, with its namespace
	// or without, is no error.
	Detach(ctx context.Context, containerID, ifName string) error
	// Check compares the interface with spec and returns what it is, or the
	// first difference as an ErrMismatch. When the node has nothing of the
	// interface any more, which a network namespace that ends brings about,
	// the ErrMismatch is an ErrGone too.
	Check(ctx context.Context, spec Spec) (Link, error)
	// Resize gives the pod's end the MTU of spec. The host end is for whoever
	// keeps the node's devices.
	Resize(ctx context.Context, spec Spec) error
	// List returns what is on the node, the oldest first. Whatever else is there
	// it leaves out, and what is not marked as Attach does.
	List(ctx context.Context) ([]Found, error)
}

// ErrExists says that the pod has an interface of the wanted name already.
var ErrExists = errors.New("interface exists")

// ErrGone says that the node's side of an interface doesn't exist.
var ErrGone = errors.New("interface is gone")

// ErrMismatch says that an interface is not, or no longer, as specified.
var ErrMismatch = errors.New("interface differs from what was attached")
