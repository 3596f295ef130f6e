// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attach/netkit"
	"github.com/alioth-net/alioth/cnid/attach/veth"
)

// PodDevice is a choice of what pods' interfaces are made of.
type PodDevice string

const (
	// PodDeviceVeth is a pair of virtual Ethernet devices, which every kernel has.
	PodDeviceVeth PodDevice = "veth"
	// PodDeviceNetkit is a pair of netkit devices. A node whose kernel has none
	// is of no use then, and its daemon ends.
	PodDeviceNetkit PodDevice = "netkit"
	// PodDeviceAuto is netkit where the kernel has it, and veth elsewhere.
	PodDeviceAuto PodDevice = "auto"
)

// PodDevices are all of them.
func PodDevices() []PodDevice { return []PodDevice{PodDeviceVeth, PodDeviceNetkit, PodDeviceAuto} }

// choosePodDevice returns the kind that new attachments have on this node.
func choosePodDevice(ctx context.Context, choice PodDevice, probe func(context.Context, attach.Kind) error, log *slog.Logger) (attach.Kind, error) {
	if choice == PodDeviceVeth {
		return veth.Kind, nil
	}
	err := probe(ctx, netkit.Kind)
	switch {
	case err == nil:
		log.Info("new pods get netkit devices")
		return netkit.Kind, nil
	case choice == PodDeviceNetkit && errors.Is(err, attach.ErrUnsupported):
		return "", fmt.Errorf("--pod-device=netkit: %w; it takes Linux 6.7 built with CONFIG_NETKIT, or else --pod-device=auto "+
			"(daemon.podDevice of the chart), which uses veth on nodes like this one", err)
	case choice == PodDeviceNetkit:
		return "", fmt.Errorf("--pod-device=netkit: %w", err)
	}
	log.Info("new pods get veth devices", "because", err)
	return veth.Kind, nil
}
