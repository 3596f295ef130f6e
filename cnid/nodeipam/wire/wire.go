// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire is the JSON of the node IPAM API. Other CNI plugins get the addresses of pods from
// this API. Paths, names and numbers equal the ones of Azure CNS with Swift V2, so that its
// clients work unmodified. The package is pure: types, and tables of paths and codes.
//
// Names of fields are matched without regard to case, as those clients expect. Both sides
// ignore fields that they don't know. Fields may be added.
package wire

import "encoding/json"

// Response is the result of a request, and the whole answer to a release.
type Response struct {
	// ReturnCode is 0 for success.
	ReturnCode ReturnCode `json:"ReturnCode"`
	// Message is for people. Of an error that will pass it begins with "network is not ready - ".
	Message string `json:"Message"`
}

// IPConfigsRequest asks for the addresses of a pod, or releases them. A request with the
// same infraContainerID and ifname has the same result.
type IPConfigsRequest struct {
	// DesiredIPAddresses are addresses without a prefix length. The operator chooses the
	// addresses of pods; others than those are refused.
	DesiredIPAddresses []string `json:"desiredIPAddresses"`
	// PodInterfaceID is a second name of the attachment; the client chooses it.
	PodInterfaceID string `json:"podInterfaceID"`
	// InfraContainerID is the sandbox: CNI_CONTAINERID.
	InfraContainerID string `json:"infraContainerID"`
	// OrchestratorContext names the pod. A release needs none.
	OrchestratorContext json.RawMessage `json:"orchestratorContext"`
	// Ifname is the interface: CNI_IFNAME. A request without one means eth0. In a release
	// without one podInterfaceID names the attachment, or without both all of the container.
	Ifname string `json:"ifname"`
	// SecondaryInterfacesExist is ignored: only the service knows.
	SecondaryInterfacesExist bool `json:"secondaryInterfacesExist"`
	// BackendInterfaceExist is ignored, as InfiniBand is not supported.
	BackendInterfaceExist bool `json:"BackendInterfaceExist"`
	// BackendInterfaceMACs is ignored. The name on the wire comes from CNS.
	BackendInterfaceMACs []string `json:"BacknendInterfaceMacAddress"`
	// NetworkName is the name of the network configuration. Clients of CNS do not send it.
	NetworkName string `json:"networkName,omitempty"`
	// NetnsPath is a file that refers to the pod's network namespace: CNI_NETNS. Clients of
	// CNS do not send it.
	NetnsPath string `json:"netnsPath,omitempty"`
}

// IPConfigRequest is IPConfigsRequest of the singular paths.
type IPConfigRequest struct {
	// DesiredIPAddress is an address without a prefix length, or "".
	DesiredIPAddress string `json:"DesiredIPAddress"`
	// PodInterfaceID is a second name of the attachment; the client chooses it.
	PodInterfaceID string `json:"PodInterfaceID"`
	// InfraContainerID is the sandbox: CNI_CONTAINERID.
	InfraContainerID string `json:"InfraContainerID"`
	// OrchestratorContext names the pod. A release needs none.
	OrchestratorContext json.RawMessage `json:"OrchestratorContext"`
	// Ifname is the interface: CNI_IFNAME.
	Ifname string `json:"Ifname"`
}

// Plural returns the same request for the plural paths.
func (r IPConfigRequest) Plural() IPConfigsRequest {
	plural := IPConfigsRequest{
		PodInterfaceID: r.PodInterfaceID, InfraContainerID: r.InfraContainerID,
		OrchestratorContext: r.OrchestratorContext, Ifname: r.Ifname,
	}
	if r.DesiredIPAddress != "" {
		plural.DesiredIPAddresses = []string{r.DesiredIPAddress}
	}
	return plural
}

// OrchestratorContext names a pod.
type OrchestratorContext struct {
	// PodName is the name of the Pod object.
	PodName string `json:"PodName"`
	// PodNamespace is the namespace of the Pod object.
	PodNamespace string `json:"PodNamespace"`
	// PodUID tells a pod from a later one of the same name. Clients of CNS do not send it.
	PodUID string `json:"PodUID,omitempty"`
}

// IPConfigsResponse has one entry for each address of a pod.
type IPConfigsResponse struct {
	PodIPInfo []PodIPInfo `json:"podIPInfo"`
	Response  Response    `json:"response"`
}

// IPConfigResponse is IPConfigsResponse of the singular path.
type IPConfigResponse struct {
	PodIPInfo PodIPInfo `json:"PodIpInfo"`
	Response  Response  `json:"Response"`
}

// NICType is the kind of an interface's device.
type NICType string

const (
	// InfraNIC is an interface that the client makes.
	InfraNIC NICType = "InfraNIC"
	// FrontendNIC is a device of the node that was delegated to the pod. The client finds it
	// by its Ethernet address.
	FrontendNIC NICType = "FrontendNIC"
)

// PodIPInfo is one address of an interface that the client makes, or a delegated device with
// all of its addresses: clients of CNS know one entry for each Ethernet address.
type PodIPInfo struct {
	// PodIPConfig is the address. If a device has two addresses, it is the IPv4 address.
	PodIPConfig IPSubnet `json:"PodIPConfig"`
	// NetworkContainerPrimaryIPConfig is the subnet that the address is from, with its gateway.
	NetworkContainerPrimaryIPConfig IPConfiguration `json:"NetworkContainerPrimaryIPConfig"`
	// NetworkContainerIPv6Config has the IPv6 address of a device with two addresses: as
	// clients of CNS read it, IPSubnet is the address, and GatewayIPv6Address the gateway of
	// its subnet.
	NetworkContainerIPv6Config *IPConfiguration `json:"NetworkContainerIPv6Config,omitempty"`
	// HostPrimaryIPInfo is the node's own network.
	HostPrimaryIPInfo HostIPInfo `json:"HostPrimaryIPInfo"`
	// NICType is InfraNIC or FrontendNIC.
	NICType NICType `json:"NICType"`
	// InterfaceName is the interface in the pod.
	InterfaceName string `json:"InterfaceName"`
	// MacAddress of a device, in lower case with colons. It is "" for InfraNIC, where the
	// client chooses.
	MacAddress string `json:"MacAddress"`
	// SkipDefaultRoutes is true if the client must not add a default route via the gateway.
	SkipDefaultRoutes bool `json:"SkipDefaultRoutes"`
	// Routes are the routes of the interface.
	Routes []Route `json:"Routes"`
	// NetworkContainerID identifies the interface.
	NetworkContainerID string `json:"NetworkContainerID,omitempty"`
}

// IPConfiguration is a subnet with its gateways.
type IPConfiguration struct {
	// IPSubnet has the first address of the subnet.
	IPSubnet IPSubnet `json:"IPSubnet"`
	// DNSServers are addresses.
	DNSServers []string `json:"DNSServers"`
	// GatewayIPAddress is the gateway, "" without one.
	GatewayIPAddress string `json:"GatewayIPAddress"`
	// GatewayIPv6Address is the gateway of a subnet of IPv6.
	GatewayIPv6Address string `json:"GatewayIPv6Address,omitempty"`
}

// IPSubnet is an address with a prefix length.
type IPSubnet struct {
	IPAddress string `json:"IPAddress"`
	// PrefixLength in bits.
	PrefixLength uint8 `json:"PrefixLength"`
}

// HostIPInfo is the network of the node.
type HostIPInfo struct {
	Gateway   string `json:"Gateway"`
	PrimaryIP string `json:"PrimaryIP"`
	// Subnet is a prefix.
	Subnet string `json:"Subnet"`
}

// Route is a route of an interface.
type Route struct {
	// IPAddress is the destination, a prefix.
	IPAddress string `json:"IPAddress"`
	// GatewayIPAddress is "" for a destination on the link.
	GatewayIPAddress string `json:"GatewayIPAddress"`
	// InterfaceToUse is empty: the interface is the interface of the entry.
	InterfaceToUse string `json:"InterfaceToUse"`
}

// CollectRequest releases attachments that the runtime has forgotten (CNI's GC).
type CollectRequest struct {
	// NetworkName limits it to the attachments of one network configuration.
	NetworkName string `json:"networkName"`
	// Valid are the attachments to keep.
	Valid []ValidAttachment `json:"validAttachments"`
}

// ValidAttachment is an attachment that a runtime knows.
type ValidAttachment struct {
	ContainerID string `json:"containerID"`
	Ifname      string `json:"ifname"`
}

// UnsupportedResponse is the answer of a path without a shape of its own: clients look for the
// code in one of two places.
type UnsupportedResponse struct {
	Response
	// Inner is the same.
	Inner Response `json:"Response"`
}
