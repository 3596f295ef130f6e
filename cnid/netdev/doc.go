// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netdev makes the node's side of the network: the tunnel device, the
// pair of devices that is the node's own interface in the default VPC, a pair by
// which the datapath fragments, the node's shadow addresses, a route to every pod's
// shadow, and the kernel settings that forwarding needs.
//
// Links makes the devices that always exist; Apply takes the rest from a
// hostdev.State. Both read the kernel first and change only what differs, so they may
// be called any number of times and repair what somebody removed. Routes of
// Alioth carry the routing protocol number RouteProtocol, and only those are
// ever deleted. Uninstall undoes everything, kernel settings included.
package netdev
