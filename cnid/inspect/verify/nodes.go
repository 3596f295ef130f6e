// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/store"
)

// Kinds of differences between the API and a node, and within a node.
const (
	// NodeSilent: a node's daemon does not answer.
	NodeSilent Kind = "NodeSilent"
	// NodeUnprogrammed: the daemon reports that it can't program the node.
	NodeUnprogrammed Kind = "NodeUnprogrammed"
	// NodeUnreadable: a part of the node's state can't be read.
	NodeUnreadable Kind = "NodeUnreadable"
	// NotAttached: a pod runs without a record in the node's journal.
	NotAttached Kind = "NotAttached"
	// AttachmentLeft: an attachment whose pod is gone.
	AttachmentLeft Kind = "AttachmentLeft"
	// AttachmentUnfinished: an attachment that was begun or is being undone.
	AttachmentUnfinished Kind = "AttachmentUnfinished"
	// AttachmentTwice: a pod's interface is attached in two sandboxes.
	AttachmentTwice Kind = "AttachmentTwice"
	// AttachmentUnclaimed: an attachment uses addresses that its pod does not
	// hold.
	AttachmentUnclaimed Kind = "AttachmentUnclaimed"
	// AttachmentVNI: an attachment is in a VNI that its VPC does not have.
	AttachmentVNI Kind = "AttachmentVNI"
	// ReleasePending: addresses wait for their release.
	ReleasePending Kind = "ReleasePending"
	// DeviceMissing: a device is gone, replaced or down.
	DeviceMissing Kind = "DeviceMissing"
	// DeviceLeft: a device belongs to no attachment.
	DeviceLeft Kind = "DeviceLeft"
	// SettingDiffers: a device of Alioth, or one with an address of the node, has another
	// kernel setting.
	SettingDiffers Kind = "SettingDiffers"
	// InterfaceBroken: a pod's interface has changed.
	InterfaceBroken Kind = "InterfaceBroken"
)

// Remedies that several kinds have in common.
const (
	seeDaemon = "see the log of the node's alioth-cnid, which should have repaired it within a minute"
	unlessNow = "unless a pod is being started or ended there, " + seeDaemon
)

// node compares the state of one node with the API and with itself.
func (c *comparison) node(node Node) {
	if node.Dump == nil {
		if !c.fenced(node.Name) {
			c.onNode(
				node.Name,
				NodeSilent,
				"alioth-cnid",
				"see the pod of alioth-cnid on that node",
				"gives no answer: %s",
				node.Silent,
			)
		}
		return
	}
	d := node.Dump
	c.condition(node.Name, d)
	c.ownAddress(node.Name, d)
	devices := map[string]nodestatus.Link{}
	for _, link := range d.Links {
		devices[link.Name] = link
		c.settings(node.Name, link)
	}
	c.uplinks(node.Name, d.Uplinks)
	for _, rec := range d.Attachments {
		c.attachment(node.Name, rec, d.Attachments)
		c.device(node.Name, rec, devices)
	}
	for _, rec := range d.Releasing {
		c.record(
			node.Name,
			ReleasePending,
			rec,
			"wait; if it lasts, "+seeDaemon,
			"is gone, and its Addresses are not released yet",
		)
	}
	for _, broken := range d.Broken {
		c.broken(node.Name, broken, d.Attachments)
	}
	c.leftDevices(node.Name, d)
	c.ownDevices(node.Name, devices)
	switch {
	case len(d.Unreadable) > 0:
	case d.Rows == nil:
		c.onNode(
			node.Name,
			NodeUnreadable,
			"daemon",
			"use the aliothctl of the daemon's image",
			"sends no rows of its maps as text: it is of another build",
		)
	default:
		c.datapath(node.Name, d, devices)
	}
}

func (c *comparison) onNode(node string, kind Kind, subject, do, what string, values ...any) {
	c.add(Difference{Kind: kind, Node: node, Subject: subject, What: fmt.Sprintf(what, values...), Do: do})
}

func (c *comparison) record(node string, kind Kind, rec nodestatus.Attachment, do, what string, values ...any) {
	subject := fmt.Sprintf("attachment %s of pod %s (container %s)", rec.IfName, rec.Pod, abbreviated(rec.ContainerID))
	c.onNode(node, kind, subject, do, what, values...)
}

// abbreviated returns a container's ID as tools of container runtimes show it.
func abbreviated(id string) string { return quote.Cut(id, 13) }

func (c *comparison) condition(node string, d *nodestatus.Dump) {
	const self = "alioth-cnid"
	switch {
	case !d.Synced:
		c.onNode(
			node,
			NodeUnprogrammed,
			self,
			"see whether the node reaches the API server",
			"is still reading from the API server",
		)
	case d.Problem != "":
		c.onNode(node, NodeUnprogrammed, self, "remove the cause that it names", "can't program the node: %s", d.Problem)
	case !d.Programmed:
		c.onNode(node, NodeUnprogrammed, self, "see its log", "has not programmed the node yet")
	}
	for _, what := range d.Unreadable {
		c.onNode(node, NodeUnreadable, "kernel", seeDaemon, "%s", what)
	}
}

// ownAddress requires that the node holds an address in a default VPC that can
// give it one.
func (c *comparison) ownAddress(node string, d *nodestatus.Dump) {
	vpc := store.GetVPC(c.tx, d.Config.DefaultVPC)
	if vpc == nil || !vpc.Ready || vpc.VNI == 0 || vpc.Deleting || len(store.OwnAddresses(c.tx, node, vpc.Name)) > 0 {
		return
	}
	if slices.ContainsFunc(
		store.SubnetsByVPC(c.tx, vpc.Name),
		func(s *store.Subnet) bool { return s.Ready && !s.Deleting },
	) {
		c.onNode(
			node,
			NodeAddressMissing,
			"node "+node,
			"see the events of the Node; "+seeOperator,
			"has no Address of its own in the default VPC %s",
			vpc.Name,
		)
	}
}

// attachment compares a record of the journal with the API.
func (c *comparison) attachment(node string, rec nodestatus.Attachment, all []nodestatus.Attachment) {
	if !rec.Finished() {
		c.record(node, AttachmentUnfinished, rec, unlessNow, "is in phase %s", rec.Phase)
		return
	}
	pod := store.GetPod(c.tx, rec.Pod.UID)
	if pod == nil {
		c.record(
			node,
			AttachmentLeft,
			rec,
			"see whether its container still runs there, and end it: the container runtime sent no DEL",
			"is attached, and the pod (UID %s) is gone",
			rec.Pod.UID,
		)
		return
	}
	for _, other := range all {
		same := other.Pod.UID == rec.Pod.UID && other.Name == rec.Name && other.Key != rec.Key
		if same && other.Seq > rec.Seq {
			c.record(
				node,
				AttachmentTwice,
				rec,
				unlessNow,
				"is attached, and so is the pod's newer container %s",
				abbreviated(other.ContainerID),
			)
		}
	}
	if !rec.InVPC() {
		return
	}
	if !pod.Deleting && !pod.Terminal {
		c.claimed(node, rec)
	}
	if vpc := store.GetVPC(c.tx, rec.VPC); vpc == nil || vpc.VNI != rec.VNI {
		c.record(node, AttachmentVNI, rec, recreatePod, "is in VNI %d, which VPC %s does not have", rec.VNI, rec.VPC)
	}
}

// claimed requires that a live pod holds the addresses of its attachment.
func (c *comparison) claimed(node string, rec nodestatus.Attachment) {
	var used []netip.Addr
	for _, prefix := range rec.Addrs {
		used = append(used, prefix.Addr())
		row := store.AddressByIP(c.tx, rec.VPC, prefix.Addr())
		if row == nil || row.Holder.UID != rec.Pod.UID || row.Deleting {
			c.record(node, AttachmentUnclaimed, rec, "keep others from getting the IP: "+recreatePod,
				"uses %s of VPC %s, of which the pod holds no Address", prefix.Addr(), rec.VPC)
			return
		}
	}
	pod := store.GetPod(c.tx, rec.Pod.UID)
	if held := c.held(pod, rec.Name); !slices.Equal(sorted(used), held) {
		c.record(node, AttachmentUnclaimed, rec, recreatePod, "uses IPs %v, and the pod holds Addresses for %v", used, held)
	}
}

func (c *comparison) device(node string, rec nodestatus.Attachment, devices map[string]nodestatus.Link) {
	if !rec.Finished() || rec.HostIfName == "" {
		return
	}
	link, found := devices[rec.HostIfName]
	switch {
	case !found:
		c.record(node, DeviceMissing, rec, recreatePod+"; it has no network", "has lost its device %s", rec.HostIfName)
	case link.Index != rec.Device.HostIfindex:
		c.record(
			node,
			DeviceMissing,
			rec,
			recreatePod+"; it has no network",
			"has a different device of the name %s: index %d, expected %d",
			rec.HostIfName,
			link.Index,
			rec.Device.HostIfindex,
		)
	case !link.Up:
		c.record(
			node,
			DeviceMissing,
			rec,
			"bring it up: ip link set dev "+rec.HostIfName+" up",
			"has its device %s down",
			rec.HostIfName,
		)
	}
}

func (c *comparison) broken(node string, broken nodestatus.Broken, records []nodestatus.Attachment) {
	for _, rec := range records {
		if rec.ContainerID == broken.ContainerID && rec.IfName == broken.IfName {
			c.record(node, InterfaceBroken, rec, recreatePod, "was changed: %s", broken.What)
		}
	}
}

// settings reports each kernel setting of a device that another program has changed.
func (c *comparison) settings(node string, link nodestatus.Link) {
	for _, name := range slices.Sorted(maps.Keys(link.Settings)) {
		c.onNode(
			node,
			SettingDiffers,
			"setting "+name,
			"find out which program sets it; "+seeDaemon,
			"is %.32q, against docs/security/node-settings.md",
			link.Settings[name],
		)
	}
}

// uplinks reports each kernel setting of the node's own devices that Alioth depends on.
func (c *comparison) uplinks(node string, links []nodestatus.Link) {
	for _, link := range links {
		for _, name := range slices.Sorted(maps.Keys(link.Settings)) {
			c.onNode(
				node,
				SettingDiffers,
				"setting "+name,
				"set it on the node with sysctl: Alioth does not change the node's own devices",
				"is %.8s in effect, against docs/security/node-settings.md",
				link.Settings[name],
			)
		}
	}
}

func (c *comparison) leftDevices(node string, d *nodestatus.Dump) {
	for _, link := range d.Links {
		if !strings.HasPrefix(link.Name, hostdev.PodPrefix) {
			continue
		}
		named := func(rec nodestatus.Attachment) bool { return rec.HostIfName == link.Name }
		if !slices.ContainsFunc(d.Attachments, named) {
			c.onNode(
				node,
				DeviceLeft,
				"device "+link.Name,
				unlessNow+"; then: ip link del "+link.Name,
				"belongs to no attachment in the journal",
			)
		}
	}
}

func (c *comparison) ownDevices(node string, devices map[string]nodestatus.Link) {
	for _, name := range hostdev.Names {
		if link, found := devices[name]; !found || !link.Up {
			what := "is gone"
			if found {
				what = "is down"
			}
			c.onNode(node, DeviceMissing, "device "+name, seeDaemon, "%s", what)
		}
	}
}
