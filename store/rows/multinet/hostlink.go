// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// DeviceOnly is the type of a HostLink of networks on a device itself. Nodes make no link for
// it, and report whether they have the device.
const DeviceOnly = "device"

// LinkID identifies a host link: interfaces that share the link are on one wire.
type LinkID struct {
	// Device is the parent device on the nodes.
	Device string
	// Type is VLAN or VXLAN, VNI its number; or DeviceOnly, without a number.
	Type string
	VNI  uint32
}

// LinkBelow returns the link that an interface of this configuration is on. It returns false for
// an interface on the parent itself, and for a device of a pool.
func LinkBelow(config netif.Config) (LinkID, bool) {
	number, vxlan := config.ParentLink()
	switch {
	case number == 0:
		return LinkID{}, false
	case vxlan:
		return LinkID{Device: config.Parent, Type: VXLAN, VNI: number}, true
	}
	return LinkID{Device: config.Parent, Type: VLAN, VNI: number}, true
}

// Segment returns the segment of networks on the link.
func (id LinkID) Segment() string {
	if id.Type == DeviceOnly {
		return id.Device + "/"
	}
	return fmt.Sprintf("%s/%s/%d", id.Device, id.Type, id.VNI)
}

// String names the link, as messages have it.
func (id LinkID) String() string {
	if id.Type == DeviceOnly {
		return "device " + id.Device
	}
	return fmt.Sprintf("%s %d on %s", strings.ToUpper(id.Type), id.VNI, id.Device)
}

// HostLink is the row of a HostLink object. Key: Name, which has device, type and number.
type HostLink struct {
	store.Meta
	Name string
	LinkID
	// NetworkID is the NetworkID in the link's name on nodes, "" without one.
	NetworkID string
	// MTU in bytes is the largest MTU that a network wants, 0 for the MTU of the parent.
	MTU int
}

var hostLinks = memory.Define(memory.Table[HostLink]{
	Name: "hostlink",
	Key:  func(l *HostLink) []byte { return memory.TextKey(l.Name) },
	Meta: func(l *HostLink) *store.Meta { return &l.Meta },
})

// GetHostLink returns the HostLink object of that name, or nil.
func GetHostLink(tx store.ReadTx, name string) *HostLink {
	return hostLinks.Get(tx, memory.TextKey(name))
}

// HostLinks yields all HostLinks by name.
func HostLinks(tx store.ReadTx) iter.Seq[*HostLink] { return hostLinks.All(tx) }

// PutHostLink inserts or replaces a HostLink.
func PutHostLink(tx store.Tx, row *HostLink) error {
	_, err := hostLinks.Put(tx, row)
	return err
}

// DeleteHostLink removes a HostLink if it has that UID, and reports whether it did.
func DeleteHostLink(tx store.Tx, name, uid string) bool {
	return hostLinks.Remove(tx, memory.TextKey(name), uid) != nil
}

// LinkFailure says why a node lacks links. An empty field of LinkID stands for all.
type LinkFailure struct {
	LinkID
	Reason, Message string
}

// Concerns reports whether a failure is about a link.
func (f LinkFailure) Concerns(id LinkID) bool {
	return (f.Device == "" || f.Device == id.Device) && (f.Type == "" || f.Type == id.Type) &&
		(f.VNI == 0 || f.VNI == id.VNI)
}

// DeviceAddrs are the addresses of a node at a device.
type DeviceAddrs struct {
	Device string
	// Addrs has at most one address of each family.
	Addrs []netip.Addr
}

// Equal reports whether both are the same.
func (a DeviceAddrs) Equal(other DeviceAddrs) bool {
	return a.Device == other.Device && slices.Equal(a.Addrs, other.Addrs)
}

// LinkReport is the row of a HostLinkReport object. Key: Name, which equals the name of the Node.
type LinkReport struct {
	store.Meta
	Name     string
	Failures []LinkFailure
	// Addresses are the addresses of the node's VXLANs that its Node object lacks.
	Addresses []DeviceAddrs
	// Configurations are the NetworkIDs that the node has files for, all of them if it is
	// Configured.
	Configured     bool
	Configurations []string
}

const (
	byFailure       = "failure"
	byConfiguration = "configuration"
)

var linkReports = memory.Define(memory.Table[LinkReport]{
	Name: "hostlinkreport",
	Key:  func(r *LinkReport) []byte { return memory.TextKey(r.Name) },
	Meta: func(r *LinkReport) *store.Meta { return &r.Meta },
	Multiple: map[string]func(*LinkReport) [][]byte{
		byFailure: keysOfFailures,
		byConfiguration: func(r *LinkReport) [][]byte {
			var keys [][]byte
			for _, id := range r.Configurations {
				keys = append(keys, memory.TextKey(id))
			}
			return keys
		},
	},
})

// ReportsWith yields the reports of nodes with a configuration for a NetworkID, by the name of
// the node.
func ReportsWith(tx store.ReadTx, networkID string) iter.Seq[*LinkReport] {
	return linkReports.Seq(tx, byConfiguration, memory.TextKey(networkID))
}

// keysOfFailures returns the devices in the failures of a report, each once; "" stands
// for all devices.
func keysOfFailures(r *LinkReport) [][]byte {
	var keys [][]byte
	seen := map[string]bool{}
	for _, f := range r.Failures {
		if !seen[f.Device] {
			seen[f.Device] = true
			keys = append(keys, memory.TextKey(f.Device))
		}
	}
	return keys
}

// FailuresOf yields the first failure that concerns a link of each report with one, by the
// name of the node among those about the device, and then among those about all devices. It
// reads the reports about the device alone.
func FailuresOf(tx store.ReadTx, id LinkID) iter.Seq2[*LinkReport, LinkFailure] {
	return func(yield func(*LinkReport, LinkFailure) bool) {
		for _, device := range []string{id.Device, ""} {
			for report := range linkReports.Seq(tx, byFailure, memory.TextKey(device)) {
				first := slices.IndexFunc(report.Failures, func(f LinkFailure) bool { return f.Concerns(id) })
				if first >= 0 && report.Failures[first].Device == device && !yield(report, report.Failures[first]) {
					return
				}
			}
		}
	}
}

// GetLinkReport returns the report of a node, or nil.
func GetLinkReport(tx store.ReadTx, node string) *LinkReport {
	return linkReports.Get(tx, memory.TextKey(node))
}

// LinkReports yields all reports by the name of the node.
func LinkReports(tx store.ReadTx) iter.Seq[*LinkReport] { return linkReports.All(tx) }

// PutLinkReport inserts or replaces a report.
func PutLinkReport(tx store.Tx, row *LinkReport) error {
	_, err := linkReports.Put(tx, row)
	return err
}

// DeleteLinkReport removes a report if it has that UID, and reports whether it did.
func DeleteLinkReport(tx store.Tx, name, uid string) bool {
	return linkReports.Remove(tx, memory.TextKey(name), uid) != nil
}
