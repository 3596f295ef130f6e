// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drivers lists the kinds of attachment that a node has.
package drivers

import (
	plugins "github.com/alioth-net/alioth/cnid/cni/delegate"
	"github.com/alioth-net/alioth/cnid/cni/delegate/host"
	"github.com/alioth-net/alioth/cnid/cni/drivers/addressonly"
	"github.com/alioth-net/alioth/cnid/cni/drivers/ipvlan"
	"github.com/alioth-net/alioth/cnid/cni/drivers/macvlan"
	"github.com/alioth-net/alioth/cnid/cni/drivers/netkit"
	"github.com/alioth-net/alioth/cnid/cni/drivers/otherplugin"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sriov"
	"github.com/alioth-net/alioth/cnid/cni/drivers/veth"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// DefaultPair is the kind of pairs that every kernel has.
const DefaultPair = veth.Kind

// WithDelegates returns a registry of nodes that run other CNI plugins too. open is called
// once. files has configurations on the node's disk.
func WithDelegates(
	all ifdriver.Registry,
	files host.ConfDir,
	open func() (*plugins.Delegates, error),
) ifdriver.Registry {
	return append(all, otherplugin.Type(files, open))
}

// WithSRIOV returns a registry of nodes with virtual functions of SR-IOV too.
func WithSRIOV(all ifdriver.Registry, cfg sriov.Config) ifdriver.Registry {
	return append(all, sriov.Type(cfg))
}

// WithExternal returns a registry of nodes with an IPAM API for other CNI plugins too.
// devices are patterns of the names of devices that pods may get.
func WithExternal(all ifdriver.Registry, devices []string) ifdriver.Registry {
	return append(all, addressonly.Type(devices))
}

// All returns the registry of this release. It has one line for each driver.
func All() ifdriver.Registry {
	return ifdriver.Registry{
		netkit.Devices.Type(),
		veth.Devices.Type(),
		macvlan.Devices.Type(),
		ipvlan.Devices.Type(),
	}
}
