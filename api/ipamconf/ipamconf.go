// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipamconf is the configuration of Alioth's IPAM plugin. The plugin gives another CNI
// plugin addresses that the operator has chosen: exactly the addresses that Alioth has written
// into the configuration. If the configuration has no addresses, the plugin asks the node IPAM
// API.
package ipamconf

import "net/netip"

// Type is the type of the plugin in a network configuration, and the name of its file.
const Type = "alioth-ipam"

// Config is the value of "ipam" in a plugin's configuration.
type Config struct {
	// Type is the constant Type.
	Type string `json:"type"`
	// Addresses of the interface. If the list is empty, the fields from Socket on count.
	Addresses []Address `json:"addresses"`
	Routes    []Route   `json:"routes,omitempty"`
	// Socket is the unix socket of the node IPAM API, and Queue the directory for releases
	// that it does not take; "" for the daemon's.
	Socket string `json:"socket,omitempty"`
	Queue  string `json:"queue,omitempty"`
	// Devices is the directory for notes about devices of the node that are in pods, "" for
	// one below /run. It must not outlive a boot.
	Devices string `json:"devices,omitempty"`
}

// Address is one address of the interface.
type Address struct {
	// Address has the prefix length of the network.
	Address netip.Prefix `json:"address"`
	// Gateway is the zero value where the network has none.
	Gateway netip.Addr `json:"gateway,omitzero"`
}

// Route is one route of the pod.
type Route struct {
	Dst netip.Prefix `json:"dst"`
	// Gateway is the zero value for a destination on the link.
	Gateway netip.Addr `json:"gw,omitzero"`
}
