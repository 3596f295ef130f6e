// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sriov"
	"github.com/alioth-net/alioth/cnid/interfaces/attach"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/podresources"
)

// drivers returns those that run no other CNI plugins.
func (c Config) drivers() attach.Registry {
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
