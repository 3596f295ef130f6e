// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
)

// Address is the kind of an address in a VPC, or in a network outside of every VPC, with its
// holder. A node follows the addresses of its own pods, all addresses of the VPCs that it has,
// and all addresses of the networks where it serves Services.
var Address = descriptor.Define(&all, descriptor.Description[*v1alpha1.Address, store.Address]{
	Name: "Address", Object: &v1alpha1.Address{}, List: &v1alpha1.AddressList{}, Convert: convertAddress,
	Table:  descriptor.ByName(store.GetAddress, store.PutAddress, store.DeleteAddress),
	OnNode: descriptor.WithField("spec.node"),
	Of: descriptor.Scopes{
		descriptor.AllAddresses: descriptor.WithField(
			"spec.vpc",
		), descriptor.AddressesOfSubnet: descriptor.WithField("spec.subnet"),
		descriptor.AddressesOfNodes: func(string) descriptor.Scope {
			return descriptor.WithField("spec.holder.kind")(string(store.HolderNode))
		},
		descriptor.ServedNetwork: descriptor.WithField("spec.network.uid"),
	},
})

// convertAddress converts an Address. It returns an error where an IP can't be read,
// which the schema refuses.
func convertAddress(in *v1alpha1.Address) (*store.Address, error) {
	ip, err := values.Addr(in.Spec.IP)
	if err != nil {
		return nil, fmt.Errorf("convert Address %s: %w", in.Name, err)
	}
	set, err := values.Addrs(in.Spec.Set)
	if err != nil {
		return nil, fmt.Errorf("convert Address %s: %w", in.Name, err)
	}
	err = values.Known(
		"spec.holder.kind",
		in.Spec.Holder.Kind,
		v1alpha1.HolderPod,
		v1alpha1.HolderNode,
		v1alpha1.HolderService,
	)
	if err = cmp.Or(err, values.Known("spec.driver", in.Spec.Driver, v1alpha1.DriverExternal)); err != nil {
		return nil, fmt.Errorf("convert Address %s: %w", in.Name, err)
	}
	return &store.Address{
		Meta:    values.Meta(in),
		Name:    in.Name,
		VPC:     in.Spec.VPC,
		Network: values.NetworkRef(in.Spec.Network),
		Subnet:  in.Spec.Subnet,
		IP:      ip,
		MAC:     in.Spec.MAC,
		Node:    in.Spec.Node,
		Holder: store.Holder{
			Kind:      store.HolderKind(in.Spec.Holder.Kind),
			Namespace: in.Spec.Holder.Namespace,
			Name:      in.Spec.Holder.Name,
			UID:       in.Spec.Holder.UID,
		},
		Attachment: in.Spec.Attachment,
		External:   in.Spec.Driver == v1alpha1.DriverExternal,
		Set:        set,
		Config:     configOf(in.Spec.Config),
		Interfaces: slices.Clone(in.Spec.Interfaces),
	}, nil
}

// plain is the configuration of most interfaces.
var plain netif.VPCConfig

// configOf returns a copy of a configuration. Plain configurations share one.
func configOf(in *netif.VPCConfig) *netif.VPCConfig {
	switch {
	case in == nil:
		return nil
	case *in == plain:
		return &plain
	}
	config := *in
	return &config
}
