// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import "net/netip"

// DumpPath is the path at the daemon's socket that answers a GET with a Dump.
const DumpPath = "/dump/v1"

// Dump is the complete state of a node, read from disk and kernel at the time of the
// request and not from the daemon's memory. Together with the API's objects it shows
// whether the node's state is correct. Fields may be added.
type Dump struct {
	Status
	// Config is the configuration of the daemon's plan.
	Config Settings `json:"config"`
	// Removed are attachments that are gone and that the kubelet may still probe.
	Removed []Attachment `json:"removed,omitempty"`
	// Links are the devices in the node's network namespace that carry one of
	// Alioth's names, by name.
	Links []Link `json:"links"`
	// Uplinks are the devices with an address of the node, by name. Their Settings are the
	// settings in effect that Alioth depends on and does not change.
	Uplinks []Link `json:"uplinks,omitempty"`
	// Broken has the errors of the interfaces of finished attachments; intact ones
	// are not in it.
	Broken []Broken `json:"broken,omitempty"`
	// Tables are the tables that the daemon has read completely, of the VPCs whose packets the
	// node carries, by name; null: everything. It alone comes from the daemon's memory.
	Tables map[string]Table `json:"tables"`
	// Rows are the rows of the pinned maps as text: their content, by their subject. The text of
	// one release is comparable with itself only.
	Rows map[string]string `json:"rows"`
	// Cached are the rows of single addresses that the node has looked up, by VNI and IP.
	Cached []CachedRow `json:"cached,omitempty"`
	// Hooks are the attachments of the datapath's programs.
	Hooks Programs `json:"hooks"`
	// Unreadable lists the parts that could not be read. Values that depend on them
	// are not known then.
	Unreadable []string `json:"unreadable,omitempty"`
}

// Table has the parts of a VPC that a daemon has read completely.
type Table struct {
	// Members reports that it has read all members of the VPC's roles.
	Members bool `json:"members,omitempty"`
	// Subnets reports that it has read all Subnets, Addresses all Addresses.
	Subnets   bool `json:"subnets,omitempty"`
	Addresses bool `json:"addresses,omitempty"`
	// Known are the names of Subnets that the node has read although it lacks others, ascending.
	Known []string `json:"known,omitempty"`
	// OfSubnets are the names of the Subnets whose Addresses the node has all read, ascending.
	OfSubnets []string `json:"ofSubnets,omitempty"`
}

// CachedRow is a row of one address that the node has looked up.
type CachedRow struct {
	VNI uint32     `json:"vni"`
	IP  netip.Addr `json:"ip"`
	// Node is the underlay address that receives the packets, MAC the MAC of the destination.
	Node netip.Addr `json:"node"`
	MAC  string     `json:"mac"`
	// Gone reports that the node has returned a packet: no packet uses the row any more.
	Gone bool `json:"gone,omitempty"`
}

// Link is one device of the node.
type Link struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	Up    bool   `json:"up"`
	// Settings are kernel settings of the device with a wrong value, with this value, by their
	// path below /proc/sys/net.
	Settings map[string]string `json:"settings,omitempty"`
}

// Broken is an attachment whose interface is not as it was made.
type Broken struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
	What        string `json:"what"`
}

// Programs are the places where the node's programs are attached.
type Programs struct {
	Filters []Filter `json:"filters"`
	// Links are names of pinned links.
	Links []string `json:"links"`
}

// Filter is one program on one device. Program is its name in the kernel.
type Filter struct {
	Ifindex int    `json:"ifindex"`
	Program string `json:"program"`
}
