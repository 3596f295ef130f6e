// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attach/pair"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/ebpf/datapath"
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

// choosePodDevice says of which kind new attachments are on this node.
func choosePodDevice(ctx context.Context, choice PodDevice, probe func(context.Context, pair.Kind) error, log *slog.Logger) (journal.Kind, error) {
	if choice == PodDeviceVeth {
		return journal.KindVeth, nil
	}
	err := probe(ctx, pair.Netkit)
	switch {
	case err == nil:
		log.Info("new pods get netkit devices")
		return journal.KindNetkit, nil
	case choice == PodDeviceNetkit && errors.Is(err, pair.ErrUnsupported):
		return "", fmt.Errorf("--pod-device=netkit: %w; it takes Linux 6.7 built with CONFIG_NETKIT, or else --pod-device=auto "+
			"(daemon.podDevice of the chart), which uses veth on nodes like this one", err)
	case choice == PodDeviceNetkit:
		return "", fmt.Errorf("--pod-device=netkit: %w", err)
	}
	log.Info("new pods get veth devices", "because", err)
	return journal.KindVeth, nil
}

// newAttachers returns one for each kind, whatever new attachments are: those
// that are there stay as they are.
func newAttachers() (map[journal.Kind]attach.Attacher, error) {
	attachers := map[journal.Kind]attach.Attacher{}
	for kind, devices := range map[journal.Kind]pair.Kind{journal.KindVeth: pair.Veth, journal.KindNetkit: pair.Netkit} {
		attacher, err := pair.New(devices, datapath.VirtualMAC[:])
		if err != nil {
			return nil, err
		}
		attachers[kind] = attacher
	}
	return attachers, nil
}
