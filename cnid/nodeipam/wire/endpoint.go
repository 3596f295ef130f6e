// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

// GetEndpointResponse has the interfaces of a container.
type GetEndpointResponse struct {
	Response     Response     `json:"response"`
	EndpointInfo EndpointInfo `json:"endpointInfo"`
}

// EndpointInfo is the state of a container's interfaces. Addresses are from the journal of
// attachments; the client has added the rest.
type EndpointInfo struct {
	PodName      string `json:"PodName"`
	PodNamespace string `json:"PodNamespace"`
	// IfnameToIPMap is by the name of the interface in the pod.
	IfnameToIPMap map[string]IPInfo `json:"IfnameToIPMap"`
}

// EndpointPatch has the values that a client adds to an endpoint, by the name of the interface.
// Each entry needs at least one of HostVethName, HnsEndpointID, NICType and MacAddress. Fields
// that are empty stay as they are; addresses are ignored.
type EndpointPatch map[string]*IPInfo

// IPInfo is the state of one interface.
type IPInfo struct {
	IPv4 []IPNet `json:"IPv4"`
	IPv6 []IPNet `json:"IPv6,omitempty"`
	// HnsEndpointID and HnsNetworkID are names of the client.
	HnsEndpointID string `json:"HnsEndpointID,omitempty"`
	HnsNetworkID  string `json:"HnsNetworkID,omitempty"`
	// HostVethName is the end of the interface on the node.
	HostVethName string `json:"HostVethName,omitempty"`
	MacAddress   string `json:"MacAddress,omitempty"`
	// NetworkContainerID identifies the interface.
	NetworkContainerID string  `json:"NetworkContainerID,omitempty"`
	NICType            NICType `json:"NICType"`
}

// IPNet is a net.IPNet as Go encodes it.
type IPNet struct {
	// IP is an address.
	IP string `json:"IP"`
	// Mask has the bytes of the network mask, in base64.
	Mask []byte `json:"Mask"`
}

// IPState is the state of an address in the debug views.
type IPState string

const (
	// Available is reserved for nobody. Alioth has no such addresses.
	Available IPState = "Available"
	// Assigned is of an attached pod.
	Assigned IPState = "Assigned"
	// PendingRelease is of a pod that is gone. The address is not free yet.
	PendingRelease IPState = "PendingRelease"
	// PendingProgramming is of an attachment that is not finished.
	PendingProgramming IPState = "PendingProgramming"
)

// GetIPAddressesRequest selects addresses by state. Without a state it selects all.
type GetIPAddressesRequest struct {
	IPConfigStateFilter []IPState `json:"IPConfigStateFilter"`
}

// GetIPAddressStatusResponse lists addresses.
type GetIPAddressStatusResponse struct {
	IPConfigurationStatus []IPConfigurationStatus `json:"IPConfigurationStatus"`
	Response              Response                `json:"Response"`
}

// IPConfigurationStatus is one address of the node's pods.
type IPConfigurationStatus struct {
	State IPState `json:"state"`
	// ID identifies the address.
	ID        string `json:"ID"`
	IPAddress string `json:"IPAddress"`
	// LastStateTransition is a time in RFC 3339.
	LastStateTransition string `json:"LastStateTransition"`
	// NCID identifies the interface.
	NCID    string  `json:"NCID"`
	PodInfo PodInfo `json:"PodInfo"`
}

// PodInfo is the pod that has an address.
type PodInfo struct {
	PodName             string `json:"PodName"`
	PodNamespace        string `json:"PodNamespace"`
	PodInfraContainerID string `json:"PodInfraContainerID"`
	PodInterfaceID      string `json:"PodInterfaceID"`
}

// GetPodContextResponse has the IDs of addresses by podInterfaceID.
type GetPodContextResponse struct {
	PodContext map[string][]string `json:"PodContext"`
	Response   Response            `json:"Response"`
}

// GetHTTPServiceDataResponse is everything that the service knows.
type GetHTTPServiceDataResponse struct {
	HTTPRestServiceData HTTPRestServiceData `json:"HTTPRestServiceData"`
	Response            Response            `json:"Response"`
}

// HTTPRestServiceData has the addresses by ID, and the IDs by podInterfaceID.
type HTTPRestServiceData struct {
	PodIPIDByPodInterfaceKey map[string][]string              `json:"PodIPIDByPodInterfaceKey"`
	PodIPConfigState         map[string]IPConfigurationStatus `json:"PodIPConfigState"`
}
