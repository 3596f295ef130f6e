// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ifdriver defines the interface between Alioth and the drivers that attach a pod to its
// network. Each kind of attachment has a driver in a package below cnid/cni/drivers. Callers ask
// for the abilities of a driver, never for its kind.
package ifdriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/alioth-net/alioth/api/netif"
)

// Kind names a driver, in the journal too.
type Kind string

// Hook is the place of the datapath's programs on the packets of an interface.
type Hook int

const (
	// HookNone stands for no program. The datapath has nothing of such an interface.
	HookNone Hook = iota
	// HookHostEnd stands for a program on the host end, which receives the packets that the pod
	// sends.
	HookHostEnd
	// HookPodEnd stands for a program in the pair itself, while the pod's end sends.
	HookPodEnd
)

// Capabilities are the abilities of a driver's interfaces.
type Capabilities struct {
	// HostEnd: an interface has a device on the node. Without one, HostName is "".
	HostEnd bool
	// Hook is the place of the datapath's programs, HookNone without a datapath.
	Hook Hook
	// FollowsMTU: Resize can change the MTU of an interface that a pod uses.
	FollowsMTU bool
	// Restorable: Attach can recreate an interface in a sandbox that has lost it.
	Restorable bool
	// Device: an interface is a device that the kubelet has allocated (Spec.PCI).
	Device bool
	// External: another CNI plugin makes the interfaces. The driver keeps that they are in
	// use.
	External bool
}

// Datapath reports whether the datapath carries the packets of such interfaces.
func (c Capabilities) Datapath() bool { return c.Hook != HookNone }

// Catalog has the capabilities of every driver. It is pure, for planning.
type Catalog map[Kind]Capabilities

// Type is a driver that has not been opened yet.
type Type struct {
	Kind         Kind
	Capabilities Capabilities
	// Pair: a node can select this kind for the pairs of devices of its new pods.
	Pair bool
	Maker
}

// Maker makes a driver.
type Maker interface {
	// Probe tries whether the kernel can make the interfaces of the driver. A kernel that
	// can't is an ErrUnsupported.
	Probe(ctx context.Context) error
	// Open returns a driver for the network namespace of the calling thread.
	Open(node Node) (Driver, error)
}

// Supported is the Probe of a Maker whose interfaces every kernel can make.
type Supported struct{}

// Probe implements Maker.
func (Supported) Probe(context.Context) error { return nil }

// Node has a driver's inputs from its node.
type Node struct {
	// MAC is the address of the ends on the node's side.
	MAC net.HardwareAddr
	// Dir is a folder for files about interfaces without an end on the node. It need not
	// outlive a boot. Each driver has a folder of its kind in it.
	Dir string
	// Place is the node's place in the nodes' network. nil: the node has none.
	Place Place
}

// Place is the place of a node in the nodes' network, which may change.
type Place interface {
	// Underlay returns the place as it is now.
	Underlay() (Underlay, error)
}

// Underlay is the place of a node in the network of the nodes.
type Underlay struct {
	// Addrs are the addresses of the node that other nodes know. None: pods may be in the
	// network of each device.
	Addrs []netip.Addr
	// Guarded is the index of the device on which a program keeps pods from sending as a
	// node; 0: no device.
	Guarded int
}

// Spec is one wanted interface in one pod.
type Spec struct {
	// ContainerID and IfName identify the attachment; IfName is also the
	// interface's name in the pod.
	ContainerID, IfName string
	// Request is the IfName of the attachment that this one comes along with, "" for
	// one that was asked for itself; kept beside PodUID.
	Request string
	// PodUID and Network, the name in the CNI configuration, are kept on the
	// node's side of the interface, for Driver.List.
	PodUID, Network string
	// Description is for people who look at the node's devices.
	Description string
	// NetnsPath is a file that refers to the pod's network namespace. Detach
	// does without.
	NetnsPath string
	// Addrs with the subnets' prefix lengths, at most one per family, and the
	// Gateways in the same order. Outside of every VPC there may be none.
	Addrs    []netip.Prefix
	Gateways []netip.Addr
	MAC      net.HardwareAddr
	// AltName is a second name of the interface in the pod, or "".
	AltName string
	// PCI is the address of the device that becomes the interface, "" for an interface without
	// a device.
	PCI string
	// OnLink: Parent is a VLAN or VXLAN link that Alioth has made, and that the network has
	// by device and number. Networks that name such a link as their device are refused.
	OnLink bool
	// Config has the other settings.
	netif.Config
	// Delegate is the part of an interface that another CNI plugin makes, nil for others.
	Delegate *Delegate
}

// ModeDevice is the mode of a delegated device (Spec.Mode): a device of the node, with the
// address Spec.MAC, that another CNI plugin moves into the pod. The mode of an interface that
// such a plugin makes is "".
const ModeDevice = "device"

// IPs returns the addresses without prefix lengths.
func (s Spec) IPs() []netip.Addr {
	ips := make([]netip.Addr, len(s.Addrs))
	for i, p := range s.Addrs {
		ips[i] = p.Addr()
	}
	return ips
}

// Delegate is the input of another CNI plugin.
type Delegate struct {
	// Conf is a list of configurations in JSON, complete (pluginconf.Build).
	Conf []byte
	// File is a configuration on the node's disk, the source of Conf; nil if Conf is given.
	File *netif.DelegateFile
	// Args are the keys and values of CNI_ARGS. They have no semicolon.
	Args [][2]string
	// InOrder: the plugins of the interface run after the plugins of all interfaces before it, as the
	// NPWG standard demands of definitions. Otherwise Attach may be called for several
	// interfaces of a pod at the same time, and Finisher.Finish completes them.
	InOrder bool
	// DefaultRoutes are the default routes that the interface may have.
	DefaultRoutes DefaultRoutes
}

// ByNetworkID reports whether the interface is in a network of DANM with a static type.
func (d *Delegate) ByNetworkID() bool { return d != nil && d.File != nil && d.File.NetworkID != "" }

// DefaultRoutes are the default routes that an interface of plugins may have.
type DefaultRoutes int

const (
	// OwnDefaultRoutes are the default routes of the plugins. Spec.Routes replace them, by
	// family.
	OwnDefaultRoutes DefaultRoutes = iota
	// MissingDefaultRoutes are default routes of the families where no other interface of the pod
	// has one.
	MissingDefaultRoutes
	// NoDefaultRoutes permits no default routes.
	NoDefaultRoutes
)

// Notice is an event for a pod whose interface exists.
type Notice struct{ Reason, Message string }

// Link is the result of Attach.
type Link struct {
	// HostIfName and HostIfindex are the host end's, "" and 0 without one.
	HostIfName  string
	HostIfindex int
	// HostMAC is the host end's Ethernet address, nil without one.
	HostMAC net.HardwareAddr
	// MAC is the interface's own MAC where it has the MAC of its parent device, nil where it is
	// Spec.MAC.
	MAC net.HardwareAddr
	// NetnsInode and NetnsCookie identify the pod's network namespace.
	NetnsInode, NetnsCookie uint64
	// Result is the result of the plugin of a delegated attachment, nil for others.
	Result *Result
	// Notices are for the pod's owner, from Attach alone.
	Notices []Notice
}

// Found is an interface that is on the node, as Attach marked it.
type Found struct {
	ContainerID, IfName, Request, PodUID, Network, NetnsPath string
	// MTU in bytes.
	MTU int
	// PCI is the PCI of Spec, "" for an interface without a device.
	PCI string
	// Link is zero in the pod's part where NetnsPath does not lead to the
	// interface's other end.
	Link Link
}

// Driver makes and removes the interfaces of one kind. Its methods may be
// called at the same time for different attachments.
type Driver interface {
	// Capabilities are the capabilities of every interface of the driver.
	Capabilities() Capabilities
	// HostName is the name that Attach gives to the host end, "" without one. It
	// depends on nothing but ContainerID and IfName.
	HostName(containerID, ifName string) string
	// Attach makes the interface. Remains of an earlier attempt at the same
	// attachment are removed first; on an error nothing is left. An interface
	// of that name which something else put into the pod is an ErrExists.
	Attach(ctx context.Context, spec Spec) (Link, error)
	// Detach removes the interface. A missing interface, with its namespace or without, is not an
	// error.
	Detach(ctx context.Context, containerID, ifName string) error
	// Check compares the interface with spec. It returns the present interface, or the first
	// difference as an ErrMismatch. When the node has nothing of the interface any more, for
	// example because its network namespace has ended, the ErrMismatch is an ErrGone too.
	Check(ctx context.Context, spec Spec) (Link, error)
	// Resize gives the pod's end the MTU of spec. Package netdev changes the host end.
	// Callers check Capabilities.FollowsMTU.
	Resize(ctx context.Context, spec Spec) error
	// List returns the interfaces on the node that Attach has marked, the oldest
	// first.
	List(ctx context.Context) ([]Found, error)
	// Close releases the driver's open resources. The interfaces stay. No other method may be
	// called afterwards.
	Close()
}

// Finisher is a Driver that makes interfaces of one pod side by side, and then completes the
// parts that depend on their order.
type Finisher interface {
	Driver
	// Finish completes interfaces that Attach has made (Delegate.InOrder). list has the
	// interfaces of the pod in the order of its list, also interfaces of other drivers. Interfaces that
	// do not exist yet are missing. Finish may change the Results and Notices of the links.
	// After an error the interfaces are detached.
	Finish(ctx context.Context, list []*Made) error
}

// Made is an interface that a driver has made.
type Made struct {
	Spec
	Link Link
}

// Drivers are the open drivers of a node, by kind.
type Drivers map[Kind]Driver

// Of returns the driver of a kind.
func (d Drivers) Of(kind Kind) (Driver, error) {
	driver, ok := d[kind]
	if !ok {
		return nil, fmt.Errorf(
			"this node has no attachments of kind %q: start alioth-cnid with the settings with which they were made",
			kind,
		)
	}
	return driver, nil
}

// Close closes all drivers.
func (d Drivers) Close() {
	for _, driver := range d {
		driver.Close()
	}
}

// ErrUnsupported is the error of a kernel that has no such interfaces, or not with
// all that is needed of them.
var ErrUnsupported = errors.New("this kernel has no such devices")

// ErrNotYet reports that something is missing which may come by itself, such as a device.
var ErrNotYet = errors.New("not there yet")

// ErrExists reports that the pod has an interface of the wanted name already.
var ErrExists = errors.New("interface exists")

// Taken returns the ErrExists of a name in a pod.
func Taken(ifName string) error {
	return fmt.Errorf("pod has an interface %s that Alioth did not make: %w", ifName, ErrExists)
}

// ErrGone reports that the node's side of an interface doesn't exist.
var ErrGone = errors.New("interface is gone")

// ErrMismatch reports that an interface is not, or no longer, as specified.
var ErrMismatch = errors.New("interface differs from what was attached")
