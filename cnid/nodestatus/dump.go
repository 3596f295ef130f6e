// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

// DumpPath is where the daemon's socket answers a GET with a Dump.
const DumpPath = "/dump/v1"

// Dump is all that a node holds, read from disk and kernel at the time of the
// question and not from what the daemon remembers of it. With what the API
// says, it is enough to tell whether the node is as it has to be. Fields may be
// added.
type Dump struct {
	Status
	// Config is what the daemon plans with.
	Config Settings `json:"config"`
	// Departed are attachments that are gone and that the kubelet may still probe.
	Departed []Attachment `json:"departed,omitempty"`
	// Links are the devices in the node's network namespace that carry one of
	// Alioth's names, by name.
	Links []Link `json:"links"`
	// Broken says what is wrong with the interfaces of finished attachments; one
	// that is intact is not in it.
	Broken []Broken `json:"broken,omitempty"`
	// Datapath is what the pinned maps hold.
	Datapath Maps `json:"datapath"`
	// Hooks are where the datapath's programs are attached.
	Hooks Programs `json:"hooks"`
	// Unreadable says what could not be read; what depends on it is not known
	// then.
	Unreadable []string `json:"unreadable,omitempty"`
}

// Link is one device of the node.
type Link struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	Up    bool   `json:"up"`
}

// Broken is an attachment whose interface is not as it was made.
type Broken struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
	What        string `json:"what"`
}
