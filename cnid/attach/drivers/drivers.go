// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drivers lists the kinds of attachment that a node has.
package drivers

import (
	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attach/delegate"
	"github.com/alioth-net/alioth/cnid/attach/external"
	"github.com/alioth-net/alioth/cnid/attach/ipvlan"
	"github.com/alioth-net/alioth/cnid/attach/macvlan"
	"github.com/alioth-net/alioth/cnid/attach/netkit"
	"github.com/alioth-net/alioth/cnid/attach/sriov"
	"github.com/alioth-net/alioth/cnid/attach/veth"
	plugins "github.com/alioth-net/alioth/cnid/delegate"
	"github.com/alioth-net/alioth/cnid/delegate/host"
)

// DefaultPair is the kind of pairs that every kernel has.
const DefaultPair = veth.Kind

// WithDelegates returns a registry of nodes that run other CNI plugins too. open is called
// once. files has configurations on the node's disk.
func WithDelegates(all attach.Registry, files host.ConfDir, open func() (*plugins.Delegates, error)) attach.Registry {
	return append(all, delegate.Type(files, open))
}

// WithSRIOV returns a registry of nodes with virtual functions of SR-IOV too.
func WithSRIOV(all attach.Registry, cfg sriov.Config) attach.Registry {
	return append(all, sriov.Type(cfg))
}

// WithExternal returns a registry of nodes with an IPAM API for other CNI plugins too.
// devices are patterns of the names of devices that pods may get.
func WithExternal(all attach.Registry, devices []string) attach.Registry {
	return append(all, external.Type(devices))
}

// All returns the registry of this release. It has one line for each driver.
func All() attach.Registry {
	return attach.Registry{
		netkit.Devices.Type(),
		veth.Devices.Type(),
		macvlan.Devices.Type(),
		ipvlan.Devices.Type(),
	}
}
