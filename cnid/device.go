// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sriov"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/podresources"
)

// PodDevice selects the kind of the devices of new pods: a kind of pair, or PodDeviceAuto.
type PodDevice string

// PodDeviceAuto selects the first kind of the registry that the node's kernel has.
const PodDeviceAuto PodDevice = "auto"

// PodDevices returns all choices in this release.
func PodDevices() []PodDevice {
	var list []PodDevice
	for _, kind := range drivers.All().Pairs() {
		list = append(list, PodDevice(kind))
	}
	return append(list, PodDeviceAuto)
}

// choosePodDevice returns the kind that new attachments have on this node.
func choosePodDevice(
	ctx context.Context,
	choice PodDevice,
	registry ifdriver.Registry,
	log *slog.Logger,
) (ifdriver.Kind, error) {
	kinds := registry.Pairs()
	if choice != PodDeviceAuto {
		kinds = []ifdriver.Kind{ifdriver.Kind(choice)}
	}
	var missing error
	for _, kind := range kinds {
		err := registry.Probe(ctx, kind)
		if err == nil {
			log.Info("new pods get devices of a kind", "kind", kind, "missing", missing)
			return kind, nil
		}
		missing = errors.Join(missing, err)
	}
	if choice != PodDeviceAuto && errors.Is(missing, ifdriver.ErrUnsupported) {
		return "", fmt.Errorf(
			"--pod-device=%s: %w; --pod-device=auto (daemon.podDevice of the chart) selects a kind that the node has",
			choice,
			missing,
		)
	}
	return "", fmt.Errorf("--pod-device=%s: %w", choice, missing)
}

// drivers returns the drivers that run no other CNI plugins.
func (c Config) drivers() ifdriver.Registry {
	if !c.SRIOV {
		return drivers.All()
	}
	return drivers.WithSRIOV(drivers.All(), sriov.Config{Underlay: c.UnderlayAttachments})
}

// kubelet implements attachment.Devices.
type kubelet struct{ *podresources.Client }

// Of implements attachment.Devices.
func (k kubelet) Of(ctx context.Context, pod journal.Pod) (map[string][]string, error) {
	return k.Devices(ctx, pod.Namespace, pod.Name)
}

// devices returns the devices of the node's pods, nil if the daemon attaches none.
func (c Config) devices() attachment.Devices {
	if !c.SRIOV {
		return nil
	}
	return kubelet{podresources.New(c.PodResources)}
}
