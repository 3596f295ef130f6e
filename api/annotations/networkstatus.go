// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// NetworkStatusKey is the annotation that reports the interfaces of a running pod (NPWG
// multi-network specification 1.3, section 5). Its content is for people and other
// programs; Alioth itself relies on nothing in it.
const NetworkStatusKey = "k8s.v1.cni.cncf.io/network-status"

// NetworkStatus is one interface of a running pod.
type NetworkStatus struct {
	// Name of the network, for a NetworkAttachmentDefinition namespace/name.
	Name string
	// Interface is the name of the interface in the pod; "" if it has no name.
	Interface string
	// IPs of the interface.
	IPs []netip.Addr
	// MAC of the interface, lower case with colons; "" if it is unknown. It needs
	// Interface.
	MAC string
	// MTU of the interface in bytes; 0 if it is unknown.
	MTU int
	// Default reports that this is the pod's default network.
	Default bool
	// Gateways of the default routes that lead through the interface.
	Gateways []netip.Addr
	// DNS that the network's plugin requests.
	DNS StatusDNS
	// DeviceInfo of the device behind the interface; nil for none.
	DeviceInfo *DeviceInfo
}

// StatusDNS is the DNS configuration of a network.
type StatusDNS struct {
	Nameservers []string `json:"nameservers,omitempty"`
	Domain      string   `json:"domain,omitempty"`
	Search      []string `json:"search,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// DeviceInfoVersion is the version of the NPWG device information specification that
// DeviceInfo follows.
const DeviceInfoVersion = "1.1.0"

// Types of DeviceInfo.
const (
	DevicePCI       = "pci"
	DeviceVDPA      = "vdpa"
	DeviceVhostUser = "vhost-user"
	DeviceMemif     = "memif"
)

// DeviceInfo describes the device behind an interface. Type is pci, vdpa, vhost-user or
// memif, and the field of that type is set.
type DeviceInfo struct {
	Type      string           `json:"type"`
	Version   string           `json:"version"`
	PCI       *PCIDevice       `json:"pci,omitempty"`
	VDPA      *VDPADevice      `json:"vdpa,omitempty"`
	VhostUser *VhostUserDevice `json:"vhost-user,omitempty"`
	Memif     *MemifDevice     `json:"memif,omitempty"`
}

// PCIDevice is a PCI function.
type PCIDevice struct {
	Address           string `json:"pci-address"`
	VhostNet          string `json:"vhost-net,omitempty"`
	RDMADevice        string `json:"rdma-device,omitempty"`
	PFAddress         string `json:"pf-pci-address,omitempty"`
	RepresentorDevice string `json:"representor-device,omitempty"`
}

// VDPADevice is a vDPA device. Driver is vhost or virtio.
type VDPADevice struct {
	ParentDevice      string `json:"parent-device"`
	Driver            string `json:"driver"`
	Path              string `json:"path"`
	PCIAddress        string `json:"pci-address,omitempty"`
	PFAddress         string `json:"pf-pci-address,omitempty"`
	RepresentorDevice string `json:"representor-device,omitempty"`
}

// VhostUserDevice is a vhost-user socket. Mode is client or server.
type VhostUserDevice struct {
	Mode string `json:"mode"`
	Path string `json:"path"`
}

// MemifDevice is a shared memory interface. Role is master or slave, Mode ethernet, ip
// or punt.
type MemifDevice struct {
	Role string `json:"role"`
	Path string `json:"path"`
	Mode string `json:"mode"`
}

// Directories of the nodes where device plugins and CNI plugins describe devices (device
// information specification, section 2).
const (
	deviceInfoOfDevices = "/var/run/k8s.cni.cncf.io/devinfo/dp/"
	deviceInfoOfPods    = "/var/run/k8s.cni.cncf.io/devinfo/cni/"
)

// DeviceFile returns the file where a device plugin describes a device of a resource.
func DeviceFile(resource, id string) string {
	return deviceInfoOfDevices + strings.ReplaceAll(resource+"-"+id, "/", "-") + "-device.json"
}

// InterfaceFile returns the file where the CNI plugins of an interface describe its device, if
// they have the capability CNIDeviceInfoFile.
func InterfaceFile(podUID, ifName string) string {
	return deviceInfoOfPods + strings.ReplaceAll(podUID+"-"+ifName, "/", "-") + ".json"
}

// ParseDeviceInfo reads a file about a device. Its author is a program of the node; keys that
// are not known are left out.
func ParseDeviceInfo(text []byte) (*DeviceInfo, error) {
	info := &DeviceInfo{}
	if err := json.Unmarshal(text, info); err != nil {
		return nil, fmt.Errorf("decode device information: %w", quote.Error(err))
	}
	if err := info.check(); err != nil {
		return nil, err
	}
	known := &DeviceInfo{Type: info.Type, Version: cmp.Or(info.Version, DeviceInfoVersion)}
	texts := []string{known.Version}
	switch info.Type { // the other descriptions are not for this type
	case DevicePCI:
		known.PCI = info.PCI
		texts = append(
			texts,
			info.PCI.Address,
			info.PCI.VhostNet,
			info.PCI.RDMADevice,
			info.PCI.PFAddress,
			info.PCI.RepresentorDevice,
		)
	case DeviceVDPA:
		known.VDPA = info.VDPA
		texts = append(
			texts,
			info.VDPA.ParentDevice,
			info.VDPA.Driver,
			info.VDPA.Path,
			info.VDPA.PCIAddress,
			info.VDPA.PFAddress,
			info.VDPA.RepresentorDevice,
		)
	case DeviceVhostUser:
		known.VhostUser = info.VhostUser
		texts = append(texts, info.VhostUser.Mode, info.VhostUser.Path)
	case DeviceMemif:
		known.Memif = info.Memif
		texts = append(texts, info.Memif.Role, info.Memif.Path, info.Memif.Mode)
	}
	for _, text := range texts {
		if !quote.IsShort(text) {
			return nil, fmt.Errorf(
				"device information has a text of %d bytes that is too long or can't be printed: %s",
				len(text),
				quote.Text(text),
			)
		}
	}
	return known, nil
}

// statusJSON is written for all readers. The specification has default-route, the
// public Go client gateway, so both have the same value. default and dns are always
// there, because readers treat a missing field differently.
type statusJSON struct {
	Name         string       `json:"name"`
	Interface    string       `json:"interface,omitempty"`
	IPs          []netip.Addr `json:"ips,omitempty"`
	MAC          string       `json:"mac,omitempty"`
	MTU          int          `json:"mtu,omitempty"`
	Default      bool         `json:"default"`
	DNS          StatusDNS    `json:"dns"`
	DeviceInfo   *DeviceInfo  `json:"device-info,omitempty"`
	Gateway      []netip.Addr `json:"gateway,omitempty"`
	DefaultRoute []netip.Addr `json:"default-route,omitempty"`
}

// FormatNetworkStatus returns the text of the annotation
// k8s.v1.cni.cncf.io/network-status. It returns an error if not exactly one interface is the
// default, or if an entry lacks a field that the specification demands.
func FormatNetworkStatus(list []NetworkStatus) (string, error) {
	var raw []statusJSON
	defaults := 0
	for i, status := range list {
		if err := status.check(); err != nil {
			return "", fmt.Errorf("network status %d: %w", i, err)
		}
		if status.Default {
			defaults++
		}
		raw = append(raw, statusJSON{
			Name: status.Name, Interface: status.Interface, IPs: status.IPs, MAC: status.MAC, MTU: status.MTU,
			Default: status.Default, DNS: status.DNS, DeviceInfo: status.DeviceInfo,
			Gateway: status.Gateways, DefaultRoute: status.Gateways,
		})
	}
	if defaults != 1 {
		return "", fmt.Errorf("%d of %d interfaces are the default, want exactly one", defaults, len(list))
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return "", fmt.Errorf("encode network status: %w", err)
	}
	return string(text), nil
}

func (s NetworkStatus) check() error {
	switch {
	case s.Name == "":
		return errors.New("the name of the network is missing")
	case s.MAC != "" && s.Interface == "":
		return fmt.Errorf("MAC %s has no interface", s.MAC)
	}
	for _, ip := range append(s.IPs[:len(s.IPs):len(s.IPs)], s.Gateways...) {
		if !ip.IsValid() || ip.Zone() != "" {
			return fmt.Errorf("%q is no plain address", ip)
		}
	}
	return s.DeviceInfo.check()
}

func (d *DeviceInfo) check() error {
	if d == nil {
		return nil
	}
	set := map[string]bool{
		DevicePCI:       d.PCI != nil,
		DeviceVDPA:      d.VDPA != nil,
		DeviceVhostUser: d.VhostUser != nil,
		DeviceMemif:     d.Memif != nil,
	}
	if !set[d.Type] {
		return fmt.Errorf("device information of type %q has no description of that type", d.Type)
	}
	return nil
}
