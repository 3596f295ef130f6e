// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal keeps the attachments of a node on disk: every attachment
// that was begun and not yet undone, its shadow addresses, and the queue of
// attachments whose addresses are still to be released in the API.
//
// A record is written before its first side effect and removed after the last one is
// undone. So the journal names everything that a killed daemon leaves behind.
package journal

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// Key names one attachment: one interface in one sandbox.
type Key struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
}

// String returns the key in the form containerID/ifName.
func (k Key) String() string { return k.ContainerID + "/" + k.IfName }

// Pod is the pod that a sandbox belongs to.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// String returns the pod in the form namespace/name.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Phase is the progress of an attachment.
type Phase string

const (
	// PhaseIntended reports that side effects may or may not have begun. Not to be
	// programmed; undone when found at start.
	PhaseIntended Phase = "intended"
	// PhaseDone reports that the device exists and Device is filled in. To be
	// programmed.
	PhaseDone Phase = "done"
	// PhaseLeaving reports that undoing has begun. No longer to be programmed.
	PhaseLeaving Phase = "leaving"
)

// MAC is an Ethernet address; state.MAC converts from it.
type MAC [6]byte

// String returns the address in lower case with colons.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// MarshalText implements encoding.TextMarshaler.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; it wants six octets.
func (m *MAC) UnmarshalText(text []byte) error {
	mac, err := ParseMAC(string(text))
	if err != nil {
		return err
	}
	*m = mac
	return nil
}

// ParseMAC reads an Ethernet address of six octets.
func ParseMAC(text string) (MAC, error) {
	hw, err := net.ParseMAC(text)
	if err != nil {
		return MAC{}, fmt.Errorf("parse MAC: %w", err)
	}
	if len(hw) != 6 {
		return MAC{}, fmt.Errorf("parse MAC %q: want 6 octets, got %d", text, len(hw))
	}
	return MAC(hw), nil
}

// Device has the devices and identities that exist once an attachment is done.
type Device struct {
	// HostIfindex is the index of the host end in the node's network
	// namespace, 0 without one.
	HostIfindex int `json:"hostIfindex"`
	// NetnsInode and NetnsCookie tell the pod's network namespace from a
	// later one at the same path. A cookie is never used twice between two
	// boots.
	NetnsInode  uint64 `json:"netnsInode"`
	NetnsCookie uint64 `json:"netnsCookie"`
	// MAC of an interface with the MAC of its parent device; the zero value for others, which
	// have Interface.MAC.
	MAC MAC `json:"mac,omitzero"`
}

// Same reports whether two are one interface in one network namespace. The address of a
// parent device may change.
func (d Device) Same(other Device) bool {
	d.MAC = other.MAC
	return d == other
}

// HostPort is a port of the node that leads to a port of a pod.
type HostPort struct {
	// Protocol is TCP, UDP or SCTP.
	Protocol string `json:"protocol"`
	// HostIP is the address of the node; the zero value for all of them.
	HostIP netip.Addr `json:"hostIP"`
	// HostPort and Port are the node's and the pod's, 1 to 65535.
	HostPort uint16 `json:"hostPort"`
	Port     uint16 `json:"port"`
}

// String returns the port as people write it, for example 8080/TCP or
// 192.0.2.1:8080/TCP.
func (p HostPort) String() string {
	if !p.HostIP.IsValid() {
		return fmt.Sprintf("%d/%s", p.HostPort, p.Protocol)
	}
	return netip.AddrPortFrom(p.HostIP, p.HostPort).String() + "/" + p.Protocol
}

// Clashes reports whether two ports share an address, protocol and port of the node. A
// port without HostIP uses the addresses of both families.
func (p HostPort) Clashes(q HostPort) bool {
	return p.Protocol == q.Protocol && p.HostPort == q.HostPort &&
		(!p.HostIP.IsValid() || !q.HostIP.IsValid() || p.HostIP == q.HostIP)
}

// Identity distinguishes attachments and names their pod.
type Identity struct {
	Key
	// Request is the requested IfName if this is a further attachment of the same
	// request, "" for the requested attachment itself. The attachments of one request
	// are created and removed together.
	Request string `json:"request,omitempty"`
	// ClientID is the name that another CNI plugin has for the request, or "".
	ClientID string `json:"clientID,omitempty"`
	Pod      Pod    `json:"pod"`
	// RuntimeUID is the UID that the runtime has of a static pod, whose mirror has Pod.UID in
	// the API; "" for Pod.UID.
	RuntimeUID string `json:"runtimeUID,omitempty"`
	// CNINetwork is the name in the CNI configuration.
	CNINetwork string `json:"cniNetwork"`
	// NetnsPath is the runtime's path of the pod's network namespace.
	NetnsPath string `json:"netnsPath"`
	// Attachment is its name in the Address objects.
	Attachment string `json:"attachment"`
}

// RequestKey names the request that the attachment belongs to.
func (i Identity) RequestKey() Key {
	return Key{ContainerID: i.ContainerID, IfName: cmp.Or(i.Request, i.IfName)}
}

// UIDs returns the UIDs of the pod: the UID in the API, and the UID in the runtime if the two
// differ.
func (i Identity) UIDs() []string {
	if i.RuntimeUID == "" {
		return []string{i.Pod.UID}
	}
	return []string{i.Pod.UID, i.RuntimeUID}
}

// AskedFor reports whether the pod of a request is the pod of the attachment. Runtimes name a
// static pod by their UID, other clients by the UID of the mirror.
func (i Identity) AskedFor(pod Pod) bool {
	own := i.Pod
	own.UID = pod.UID
	return own == pod && (pod.UID == i.Pod.UID || pod.UID != "" && pod.UID == i.RuntimeUID)
}

// Binding is the network that an attachment leads to: a VPC, or something outside
// of every VPC.
type Binding struct {
	VPC string `json:"vpc"`
	VNI uint32 `json:"vni"`
	// Subnets are the names of the Subnet objects, in the order of Interface.Addrs.
	Subnets []string `json:"subnets"`
	// Outside names the network outside of every VPC, and VPC and VNI are zero; ""
	// in a VPC.
	Outside string `json:"outside,omitempty"`
	// External: another CNI plugin makes the interface, with addresses of the VPC.
	External bool `json:"external,omitempty"`
}

// InVPC reports whether the attachment leads to a VPC.
func (b Binding) InVPC() bool { return b.Outside == "" }

// Carried reports whether the datapath carries the packets of the attachment: it leads to
// a VPC, and the interface is Alioth's.
func (b Binding) Carried() bool { return b.InVPC() && !b.External }

// Interface has the properties of the pod's interface.
type Interface struct {
	Kind ifdriver.Kind `json:"kind"`
	// HostIfName is the name of the host end, "" without one.
	HostIfName string `json:"hostIfName"`
	// Addrs are the pod's addresses with their subnets' prefix lengths, at
	// most one per family, and in a VPC at least one.
	Addrs []netip.Prefix `json:"addrs"`
	// Gateways are the gateways of the subnets, in the order of Addrs.
	Gateways []netip.Addr `json:"gateways"`
	MAC      MAC          `json:"mac"`
	// AltName is a second name of the interface in the pod, or "".
	AltName string `json:"altName,omitempty"`
	// Config has the other settings. An interface in a VPC has an MTU and may have Routes.
	netif.Config
	// PCI is the address of the device of the interface, which is from Config.Pool; "" for an
	// interface without a device. No two records have one device.
	PCI    string `json:"pci,omitempty"`
	Device Device `json:"device"`
}

// Ethernet returns the address that the interface has.
func (i Interface) Ethernet() MAC { return cmp.Or(i.Device.MAC, i.MAC) }

// Record is one attachment: identity, binding and interface. In JSON all fields are on
// one level, so that files of releases without these parts can be read.
type Record struct {
	Identity
	Binding
	Interface

	// Probed is true when the kubelet probes the pod over the network or runs
	// network hooks of it, ProbeTimeout the longest that a probe may take.
	Probed       bool          `json:"probed,omitempty"`
	ProbeTimeout time.Duration `json:"probeTimeout,omitempty"`

	// HostPorts are the ports of the node that lead to the pod.
	HostPorts []HostPort `json:"hostPorts,omitempty"`

	// Shadow4 and Shadow6 are unique on the node while the record or its
	// entry in the release queue exists; the zero value for a family without
	// an address, and for an attachment that is not Carried. Begin chooses them.
	Shadow4 netip.Addr `json:"shadow4"`
	Shadow6 netip.Addr `json:"shadow6"`
	// Seq grows with every Begin: of two records the lower is the older.
	Seq uint64 `json:"seq"`
	// Begun is the time of the call of Begin.
	Begun time.Time `json:"begun"`

	Phase Phase `json:"phase"`
}
