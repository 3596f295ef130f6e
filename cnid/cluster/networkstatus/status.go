// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package networkstatus

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// Of returns the entries of a pod's network status, the pod's first interface first. interfaces are the
// interfaces of the pod, and records its finished attachments in one sandbox. A pod with one
// interface, and without a definition, has no network status: Multus may serve its annotation.
func Of(interfaces []netif.Interface, records []journal.Record, know Knowledge) []annotations.NetworkStatus {
	if len(interfaces) == 0 ||
		len(records) < 2 && !slices.ContainsFunc(interfaces, func(a netif.Interface) bool { return a.Definition != "" }) {
		return nil
	}
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b journal.Record) int {
		return cmp.Compare(place(interfaces, a), place(interfaces, b))
	})
	var list []annotations.NetworkStatus
	for _, rec := range records {
		status, result := one(interfaces, rec), know.Reported(rec)
		if result != nil {
			status = byPlugin(status, result)
		}
		status.DeviceInfo = device(know, rec, result)
		if status.MTU == 0 { // the MTU comes from a parent, or no plugin has reported it
			status.MTU = know.MTU(rec)
		}
		list = append(list, status)
	}
	return list
}

// place returns the index of a record's attachment in the list of the pod, or a number
// behind all of them. The requested one is the first.
func place(interfaces []netif.Interface, rec journal.Record) int {
	if rec.Request == "" {
		return 0
	}
	if i := slices.IndexFunc(interfaces, func(a netif.Interface) bool { return a.Name == rec.Attachment }); i >= 0 {
		return i
	}
	return len(interfaces)
}

func one(interfaces []netif.Interface, rec journal.Record) annotations.NetworkStatus {
	status := annotations.NetworkStatus{
		Name: nameOf(
			interfaces,
			rec,
		), Interface: rec.IfName, MAC: rec.Ethernet().String(), MTU: rec.MTU, Default: rec.Request == "",
		Gateways: defaultGateways(rec),
	}
	for _, addr := range rec.Addrs {
		status.IPs = append(status.IPs, addr.Addr())
	}
	return status
}

// Knowledge has the node's knowledge of interfaces beside the records.
type Knowledge interface {
	// Reported returns the report of CNI plugins about an attachment, nil for an attachment that
	// Alioth itself has made.
	Reported(journal.Record) *ifdriver.Result
	// PF returns the PCI address of the physical function of a virtual one, "" if it is
	// unknown.
	PF(pci string) string
	// MTU returns the MTU of an interface in the pod, 0 if it is unknown.
	MTU(journal.Record) int
	// Described returns the description of a device that a program of the node has written into a
	// file, nil without a file.
	Described(path string) *annotations.DeviceInfo
}

// device describes the device of an interface (NPWG device information specification
// 1.1.0): as its CNI plugins do, as its device plugin does, or by its PCI addresses. It
// returns nil for an interface without a device.
func device(k Knowledge, rec journal.Record, result *ifdriver.Result) *annotations.DeviceInfo {
	pci := rec.PCI
	if result != nil {
		if info := k.Described(annotations.InterfaceFile(rec.Pod.UID, rec.IfName)); info != nil {
			return info
		}
		iface, _ := result.InPod(rec.IfName)
		pci = cmp.Or(pci, iface.PCIID)
	}
	if pci == "" {
		return nil
	}
	if rec.Pool != "" {
		if info := k.Described(annotations.DeviceFile(rec.Pool, pci)); info != nil {
			return info
		}
	}
	return &annotations.DeviceInfo{
		Type: annotations.DevicePCI, Version: annotations.DeviceInfoVersion,
		PCI: &annotations.PCIDevice{Address: pci, PFAddress: k.PF(pci)},
	}
}

// byPlugin replaces Alioth's data of an interface by the result of its plugins, except for
// the gateways that the pod requests.
func byPlugin(status annotations.NetworkStatus, result *ifdriver.Result) annotations.NetworkStatus {
	iface, _ := result.InPod(status.Interface)
	status.MAC, status.MTU, status.IPs = iface.MAC, iface.MTU, nil
	for _, addr := range result.AddrsOf(status.Interface) {
		status.IPs = append(status.IPs, addr.Addr.Addr())
	}
	for _, route := range result.Routes {
		gateway := result.GatewayOf(route)
		if route.Dst.Bits() == 0 && gateway.IsValid() && !slices.Contains(status.Gateways, gateway) {
			status.Gateways = append(status.Gateways, gateway)
		}
	}
	dns := result.DNS
	status.DNS = annotations.StatusDNS{
		Nameservers: dns.Nameservers,
		Domain:      dns.Domain,
		Search:      dns.Search,
		Options:     dns.Options,
	}
	return status
}

// nameOf returns namespace/name of the selected definition. Without one it is the name in
// the CNI configuration for the pod's first interface (NPWG 1.3, section 5.1), and the
// network for others.
func nameOf(interfaces []netif.Interface, rec journal.Record) string {
	i := place(interfaces, rec)
	if i < len(interfaces) && interfaces[i].Definition != "" {
		return interfaces[i].Definition
	}
	if rec.Request == "" {
		return rec.CNINetwork
	}
	if rec.Outside != "" {
		return rec.Outside
	}
	return "VPC/" + rec.VPC
}

// defaultGateways returns the gateways of the default routes in the main table.
func defaultGateways(rec journal.Record) []netip.Addr {
	gateways := slices.Clone(rec.Gateways)
	for _, route := range rec.Routes {
		if route.Dst.Bits() == 0 && route.Table == 0 && route.Gateway.IsValid() {
			gateways = append(gateways, route.Gateway)
		}
	}
	return gateways
}

// finished returns the records of a pod's finished attachments in its newest sandbox, out
// of all of the pod. The runtime ends an older sandbox later.
func finished(all []journal.Record) []journal.Record {
	var newest journal.Record
	for _, rec := range all {
		if rec.Request == "" && rec.Seq >= newest.Seq {
			newest = rec
		}
	}
	var list []journal.Record
	for _, rec := range all {
		if rec.ContainerID == newest.ContainerID && rec.Phase == journal.PhaseDone {
			list = append(list, rec)
		}
	}
	if len(list) == 0 || newest.Phase != journal.PhaseDone || newest.Attachment != v1alpha1.PodAttachment {
		return nil
	}
	return list
}
