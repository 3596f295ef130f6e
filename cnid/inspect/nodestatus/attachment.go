// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/api/netif"
)

// Attachment is one interface of one pod. Fields may be added.
type Attachment struct {
	Key
	// Request is the IfName that the container runtime asked for when this interface
	// came along with that one, "" for the one asked for.
	Request string `json:"request,omitempty"`
	// ClientID is the name that another CNI plugin has for the request, or "".
	ClientID string `json:"clientID,omitempty"`
	Pod      Pod    `json:"pod"`
	// RuntimeUID is the UID of a static pod in the runtime, "" if it equals the UID of Pod.
	RuntimeUID string `json:"runtimeUID,omitempty"`
	// CNINetwork is the name in the CNI configuration.
	CNINetwork string `json:"cniNetwork"`
	// NetnsPath is the runtime's path of the pod's network namespace.
	NetnsPath string `json:"netnsPath"`
	// Name is the attachment's name in the Address objects.
	Name string `json:"attachment"`

	// VPC and VNI are zero outside of every VPC; Outside names that network then.
	VPC     string   `json:"vpc"`
	VNI     uint32   `json:"vni"`
	Subnets []string `json:"subnets"`
	Outside string   `json:"outside,omitempty"`
	// External: another CNI plugin makes the interface.
	External bool `json:"external,omitempty"`

	// Kind names the driver, HostIfName the host end, "" without one.
	Kind       string         `json:"kind"`
	HostIfName string         `json:"hostIfName"`
	Addrs      []netip.Prefix `json:"addrs"`
	Gateways   []netip.Addr   `json:"gateways"`
	// MAC is in lower case with colons.
	MAC     string `json:"mac"`
	AltName string `json:"altName,omitempty"`
	// Config has the settings of the interface. MTU, VLAN, Routes and VF replace its fields of the
	// same names.
	netif.Config
	// MTU in bytes.
	MTU int `json:"mtu"`
	// VLAN is the number of the VLAN link on Parent below the interface; 0 for none.
	VLAN   uint32  `json:"vlan,omitempty"`
	Routes []Route `json:"routes,omitempty"`
	// PCI is the address of the device of Pool, and VF has its settings; empty for an interface
	// without a device.
	PCI    string `json:"pci,omitempty"`
	VF     *VF    `json:"vf,omitempty"`
	Device Device `json:"device"`

	// Probed reports that the kubelet probes the pod over the network; ProbeTimeout is
	// the longest that a probe may take.
	Probed       bool          `json:"probed,omitempty"`
	ProbeTimeout time.Duration `json:"probeTimeout,omitempty"`
	// HostPorts are the ports of the node that lead to the pod.
	HostPorts []HostPort `json:"hostPorts,omitempty"`

	// Shadow4 and Shadow6 are the pod's addresses on its node; the zero value where it
	// has none.
	Shadow4 netip.Addr `json:"shadow4"`
	Shadow6 netip.Addr `json:"shadow6"`
	// Seq orders attachments: of two the lower is the older.
	Seq   uint64    `json:"seq"`
	Begun time.Time `json:"begun"`
	// Phase is intended, done or leaving.
	Phase string `json:"phase"`
}

// VF has the settings that a virtual function gets of its physical function.
type VF struct {
	// VLAN is 0 without a tag. Proto is 802.1q, 802.1ad, or "" for the former.
	VLAN       uint32 `json:"vlan,omitempty"`
	QoS        int    `json:"qos,omitempty"`
	Proto      string `json:"proto,omitempty"`
	SpoofCheck bool   `json:"spoofCheck,omitempty"`
	Trust      bool   `json:"trust,omitempty"`
	// LinkState is auto, enable or disable, "" where it was left as it was.
	LinkState string `json:"linkState,omitempty"`
	// MinTxRate and MaxTxRate are rates in Mbit/s, nil where they were left as they were.
	MinTxRate *int `json:"minTxRate,omitempty"`
	MaxTxRate *int `json:"maxTxRate,omitempty"`
}

// Key distinguishes the attachments of a node.
type Key struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
}

// Pod names a pod.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// String returns the pod in the form namespace/name.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Device has the devices and identities of a finished attachment.
type Device struct {
	// HostIfindex is the index of the host end, 0 without one.
	HostIfindex int `json:"hostIfindex"`
	// NetnsInode and NetnsCookie identify the pod's network namespace.
	NetnsInode  uint64 `json:"netnsInode"`
	NetnsCookie uint64 `json:"netnsCookie"`
	// MAC of an interface with the MAC of its parent device, "" for others.
	MAC string `json:"mac,omitempty"`
}

// Route is a route by an interface. Gateway is the zero value for a destination on the
// link, Table 0 for the main table.
type Route struct {
	Dst     netip.Prefix `json:"dst"`
	Gateway netip.Addr   `json:"gateway,omitzero"`
	Table   int          `json:"table,omitempty"`
}

// HostPort is a port of the node that leads to a port of a pod. Protocol is TCP, UDP
// or SCTP, HostIP the zero value for all addresses of the node.
type HostPort struct {
	Protocol string     `json:"protocol"`
	HostIP   netip.Addr `json:"hostIP"`
	HostPort uint16     `json:"hostPort"`
	Port     uint16     `json:"port"`
}

// InVPC reports whether the attachment leads to a VPC.
func (a Attachment) InVPC() bool { return a.Outside == "" }

// Finished reports whether the interface is made and not being undone.
func (a Attachment) Finished() bool { return a.Phase == "done" }
