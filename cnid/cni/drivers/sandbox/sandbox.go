// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox knows where interfaces without an end on the node are: notes about them
// on disk, and their network namespace with or without a path to it.
package sandbox

import (
	"cmp"
	"errors"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
)

// Interface identifies an interface in a pod, from before it is made until it is removed.
// Drivers embed it in their notes.
type Interface struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
	Request     string `json:"request,omitempty"`
	PodUID      string `json:"podUID"`
	Network     string `json:"network"`
	NetnsPath   string `json:"netnsPath"`
	// Mark is the alias of the interface.
	Mark string `json:"mark"`
	// Inode and Cookie identify the pod's namespace. Number is the one that the node's
	// namespace has for it: the kernel finds the pod's by it without a path.
	Inode  uint64 `json:"inode"`
	Cookie uint64 `json:"cookie"`
	Number int    `json:"number"`
	// Rules outlive the interface, so they are removed apart from it.
	Rules []netif.Rule `json:"rules,omitempty"`
	Begun time.Time    `json:"begun"`
}

// Of returns a wanted interface in the namespace of an identity and a number.
func Of(spec ifdriver.Spec, id netns.ID, number int) Interface {
	return Interface{
		ContainerID: spec.ContainerID, IfName: spec.IfName, Request: spec.Request, PodUID: spec.PodUID, Network: spec.Network,
		NetnsPath: spec.NetnsPath, Mark: ifdriver.Mark(spec), Inode: id.Inode, Cookie: id.Cookie, Number: number,
		Rules: spec.Rules, Begun: time.Now(),
	}
}

// Open opens the namespace of an interface, for the caller to close, and returns nil if it
// is not at its path.
func (i Interface) Open() (ns.NetNS, error) {
	pod, err := netns.Open(i.NetnsPath)
	if errors.Is(err, netns.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	id, err := netns.Of(pod)
	if err == nil && id == (netns.ID{Inode: i.Inode, Cookie: i.Cookie}) {
		return pod, nil
	}
	_ = pod.Close() // nothing was written
	return nil, err
}

// Found returns the interface as ifdriver.Driver.List has it. present: its namespace is at
// its path.
func (i Interface) Found(present bool) ifdriver.Found {
	found := ifdriver.Found{
		ContainerID: i.ContainerID, IfName: i.IfName, Request: i.Request, PodUID: i.PodUID, Network: i.Network,
		NetnsPath: i.NetnsPath,
	}
	if present {
		found.Link = ifdriver.Link{NetnsInode: i.Inode, NetnsCookie: i.Cookie}
	}
	return found
}

// compare orders interfaces, the oldest first.
func (i Interface) compare(other Interface) int {
	return cmp.Or(
		i.Begun.Compare(other.Begun),
		cmp.Compare(i.ContainerID+"/"+i.IfName, other.ContainerID+"/"+other.IfName),
	)
}
