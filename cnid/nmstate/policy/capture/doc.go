// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package capture evaluates the capture expressions of node network policies, and renders desired
// states with their results. Its language is nmpolicy (https://nmstate.io/nmpolicy/syntax.html):
//
//	interfaces.name=="eth1"                 the interfaces with that name
//	interfaces.type!="ethernet"             the interfaces with another type
//	capture.base | interfaces.state:="up"   a former result, changed
//	dns-resolver.running                    a part of the state
//
// It is more liberal in three ways. A pipe can follow any expression, and can follow a pipe. A
// filter without a match gives an empty list, so a policy about bridges holds on a node without
// one. A replacement makes the missing objects.
//
// The package is pure: its inputs are values, which it neither changes nor keeps.
package capture
