// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netdev configures the node's part of the network: the tunnel device, the
// pair of devices that is the node's own interface in the default VPC, a pair for
// fragmentation by the datapath, the node's shadow addresses, a route to every pod's
// shadow, and the kernel settings that forwarding needs.
//
// Links makes the devices that always exist; Apply takes the rest from a
// hostdev.State. Both read the kernel first and change only the differences, so they may
// be called any number of times, and repair changes of other programs. Alioth's routes
// have the routing protocol number RouteProtocol, and only these routes are deleted.
// Uninstall undoes everything, kernel settings included.
package netdev
