// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drivers lists the kinds of attachment that a node has.
package drivers

import (
	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attach/macvlan"
	"github.com/alioth-net/alioth/cnid/attach/netkit"
	"github.com/alioth-net/alioth/cnid/attach/veth"
)

// DefaultPair is the kind of pairs that every kernel has.
const DefaultPair = veth.Kind

// All returns the registry of this release. It has one line for each driver.
func All() attach.Registry {
	return attach.Registry{
		netkit.Devices.Type(),
		veth.Devices.Type(),
		macvlan.Devices.Type(),
	}
}
