// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import "net/netip"

// Settings has values that do not change while a daemon runs, as far as the contents of the maps
// depend on them. Fields may be added.
type Settings struct {
	Node       string `json:"node"`
	DefaultVPC string `json:"defaultVPC"`
	// Shadows are the ranges of pods' addresses on the node.
	Shadows        []netip.Prefix `json:"shadows"`
	ServiceRanges  []netip.Prefix `json:"serviceRanges"`
	SharedServices []ServiceName  `json:"sharedServices"`
	// APIServer is the Service of the API servers, Reserved are further addresses of them.
	APIServer      ServiceName    `json:"apiServer"`
	Reserved       []netip.Addr   `json:"reserved"`
	Infrastructure []netip.Prefix `json:"infrastructure"`
	// Metadata are the addresses of cloud metadata services.
	Metadata []netip.Addr `json:"metadata"`
	// TunnelPort is the UDP port of VXLAN, ProxyHealthPort the TCP port at which load
	// balancers ask about the node, 0 without.
	TunnelPort      uint16 `json:"tunnelPort"`
	ProxyHealthPort uint16 `json:"proxyHealthPort"`
	FlowsPerShadow  uint32 `json:"flowsPerShadow"`
	NodePorts       bool   `json:"nodePorts"`
	// ScaledEndpoints reports that the operator judges who the backends of Services are.
	ScaledEndpoints bool `json:"scaledEndpoints,omitempty"`
	// Kinds are the kinds of attachments, by name.
	Kinds map[string]Kind `json:"kinds"`
	// NetnsCookie is the cookie of the node's network namespace, 0 where it is unknown.
	NetnsCookie uint64 `json:"netnsCookie"`
}

// Kind has the abilities of attachments of one kind.
type Kind struct {
	HostEnd bool `json:"hostEnd"`
	// Hook is the place of the programs on the packets: 0 nowhere, 1 at the host end, 2 in the
	// pair, while the pod's end sends.
	Hook       int  `json:"hook"`
	FollowsMTU bool `json:"followsMTU"`
	Restorable bool `json:"restorable"`
	External   bool `json:"external,omitempty"`
	Device     bool `json:"device,omitempty"`
}

// ServiceName names a Service.
type ServiceName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}
