// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostdev

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/ipfamily"
)

// SettingsRoot has the kernel settings of the calling thread's network namespace.
const SettingsRoot = "/proc/sys/net"

// Forwarding is a setting that new devices have from the node.
const Forwarding = "forwarding"

// FamilyFolder returns the folder of a family's settings below SettingsRoot.
func FamilyFolder(family ipfamily.Family) string { return ipfamily.Pick(family, "ipv4", "ipv6") }

// SettingPath returns the path of a setting of a device, below SettingsRoot. It is the only
// place that puts the name of a device into such a path, and refuses names that lead
// elsewhere: to other files, or to the settings of all devices.
func SettingPath(family ipfamily.Family, device, name string) (string, error) {
	everything := []string{"", ".", "..", "all", "default"}
	if slices.Contains(everything, device) || strings.ContainsRune(device, '/') {
		return "", fmt.Errorf("%.32q is no name of a single device", device)
	}
	return filepath.Join(FamilyFolder(family), "conf", device, name), nil
}

// EveryPath returns the path, below SettingsRoot, of the setting "all": the kernel combines
// the value with the setting of each device.
func EveryPath(family ipfamily.Family, name string) string {
	return filepath.Join(FamilyFolder(family), "conf", "all", name)
}

// Setting is a kernel setting of each of Alioth's devices on a node: the tunnel's device,
// the two pairs of the node, and the host ends of pods.
type Setting struct {
	Family ipfamily.Family
	// Name is the file below /proc/sys/net/<family>/conf/<device>.
	Name string
	// ID is the number of an IPv4 setting in a netlink request (linux/ip.h).
	ID    uint16
	Value int
	// Reason says why, for docs/security/node-settings.md.
	Reason string
}

// Settings are all settings that do not depend on the device. With most of them the kernel
// uses the value of "all" too: rp_filter is the greater of the two; accept_source_route of
// both families, and accept_redirects of a device that forwards, are on only if both are;
// send_redirects, proxy_arp, proxy_ndp, accept_local and src_valid_mark are on if one is.
// Alioth leaves the values of "all" to the host.
var Settings = []Setting{
	{ipfamily.IPv4, Forwarding, 1, 1, "a pod's egress and the replies to it pass the node's stack"},
	{
		ipfamily.IPv4,
		"rp_filter",
		8,
		2,
		"the route to a source may lead by another device, and a strict filter would drop such packets. The programs and the packet filter check sources",
	},
	{ipfamily.IPv4, "accept_redirects", 4, 0, "an ICMP redirect of a pod must change no route of the node"},
	{ipfamily.IPv4, "send_redirects", 6, 0, "the node is the only neighbour of a pod, so no redirect can be right"},
	{ipfamily.IPv4, "accept_source_route", 9, 0, "a pod must not choose the path of a packet behind its next hop"},
	{ipfamily.IPv4, "proxy_arp", 3, 0, "the programs answer for a pod's neighbours; the node must not answer for others"},
	{ipfamily.IPv4, "proxy_arp_pvlan", 25, 0, "as proxy_arp"},
	{ipfamily.IPv4, "accept_local", 23, 0, "a packet from a pod with an address of the node as its source is forged"},
	{
		ipfamily.IPv4,
		"src_valid_mark",
		24,
		0,
		"the mark of a packet is the datapath's, and must select no route in the check of its source",
	},
	{ipfamily.IPv6, Forwarding, 0, 1, "as for IPv4. With it, the kernel ignores router advertisements and redirects"},
	{ipfamily.IPv6, "accept_ra", 0, 0, "a router advertisement of a pod must give the node no route and no address"},
	{ipfamily.IPv6, "autoconf", 0, 0, "a device has no address but those that the daemon assigns"},
	{ipfamily.IPv6, "accept_redirects", 0, 0, "a redirect of a pod must change no route of the node"},
	{ipfamily.IPv6, "accept_source_route", 0, -1, "no routing header is processed; with 0, type 2 would be"},
	{ipfamily.IPv6, "proxy_ndp", 0, 0, "the programs answer for a pod's neighbours"},
}

// UplinkSetting is a kernel setting of a device with an address of the node. Alioth depends on
// its value in effect and does not change it: the device is the administrator's.
type UplinkSetting struct {
	Family ipfamily.Family
	Name   string
	// Both reports that the setting takes effect only if the setting "all" is on too.
	Both bool
	// On is the wanted value in effect.
	On bool
	// Reason says why, for docs/security/node-settings.md.
	Reason string
}

// UplinkSettings are all of them.
var UplinkSettings = []UplinkSetting{
	{
		ipfamily.IPv4,
		Forwarding,
		false,
		true,
		"replies to egress of pods, and packets to ports of the node, arrive here. Without forwarding the kernel also accepts redirects",
	},
	{
		ipfamily.IPv4,
		"accept_redirects",
		true,
		false,
		"a host of the segment, or a pod of a network on it, must not change the path of tunnel packets",
	},
	{ipfamily.IPv4, "accept_source_route", true, false, "a packet must not choose a path through the node"},
	{ipfamily.IPv6, Forwarding, false, true, "as for IPv4. With it, the kernel ignores redirects"},
	{ipfamily.IPv6, "accept_source_route", true, false, "as for IPv4"},
}

// PodSettings are settings of the ends of interfaces in pods, at the time of ADD. A pod with
// NET_ADMIN may change them, and a securityContext.sysctls of the pod too.
var PodSettings = []Setting{
	{
		ipfamily.IPv4,
		"accept_redirects",
		4,
		0,
		"a neighbour must change no route of the pod. On networks outside of VPCs no program drops redirects",
	},
	{ipfamily.IPv4, "send_redirects", 6, 0, "a pod forwards if the node does, and must not send its neighbours to others"},
	{ipfamily.IPv4, "accept_source_route", 9, 0, "a neighbour must not choose a path through the pod"},
	{ipfamily.IPv4, "proxy_arp", 3, 0, "a pod must answer for its own addresses alone"},
	{ipfamily.IPv6, "accept_ra", 0, 0, "the operator assigns all routes"},
	{ipfamily.IPv6, "accept_dad", 0, 0, "the operator assigns each address once, and a pod's first packet must not wait"},
	{ipfamily.IPv6, "autoconf", 0, 0, "the operator assigns all addresses"},
	{ipfamily.IPv6, "accept_redirects", 0, 0, "as for IPv4"},
}
