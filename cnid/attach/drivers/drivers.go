// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drivers is the registry of the kinds of attachment that a node has.
package drivers

import (
	"context"
	"fmt"
	"net"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attach/netkit"
	"github.com/alioth-net/alioth/cnid/attach/veth"
)

// registry has one line for each driver.
var registry = []attach.Type{
	veth.Devices.Type(),
	netkit.Devices.Type(),
}

// Catalog returns what every driver can.
func Catalog() attach.Catalog {
	catalog := attach.Catalog{}
	for _, t := range registry {
		catalog[t.Kind] = t.Capabilities
	}
	return catalog
}

// Probe tries whether the kernel can make attachments of a kind.
func Probe(ctx context.Context, kind attach.Kind) error {
	for _, t := range registry {
		if t.Kind == kind {
			return t.Probe(ctx)
		}
	}
	return fmt.Errorf("%w of kind %q", attach.ErrUnsupported, kind)
}

// Open opens every driver for the network namespace of the calling thread: what
// is attached stays as it is, whatever new attachments are.
func Open(hostMAC net.HardwareAddr) (attach.Drivers, error) {
	drivers := attach.Drivers{}
	for _, t := range registry {
		driver, err := t.Open(hostMAC)
		if err != nil {
			return nil, err
		}
		drivers[t.Kind] = driver
	}
	return drivers, nil
}
