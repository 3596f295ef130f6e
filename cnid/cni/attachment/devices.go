// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// withDevices completes decisions by the devices that the kubelet has allocated to the pod.
func (m *Manager) withDevices(ctx context.Context, pod journal.Pod, decisions []Decision) ([]Decision, error) {
	if !slices.ContainsFunc(decisions, func(d Decision) bool { return d.Pool != "" }) {
		return decisions, nil
	}
	if m.cfg.Devices == nil {
		return nil, &NotReady{
			Reason: "the pod has interfaces on devices, and this daemon does not ask the kubelet for them: start alioth-cnid with --sriov",
		}
	}
	allocated, err := m.cfg.Devices.Of(ctx, pod)
	if err == nil {
		decisions, err = assign(decisions, allocated)
	}
	if err != nil {
		return nil, &NotReady{Reason: err.Error()}
	}
	return decisions, nil
}

// pciAddress is the form of a PCI address in sysfs: domain, bus, device and function.
var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// assign gives each decision with a pool one of the pod's devices from it, in the order of
// both lists. So a sandbox that is made again has the same devices.
func assign(decisions []Decision, allocated map[string][]string) ([]Decision, error) {
	decisions = slices.Clone(decisions)
	taken := map[string]int{}
	for i := range decisions {
		pool := decisions[i].Pool
		if pool == "" {
			continue
		}
		ids := allocated[pool]
		if taken[pool] == len(ids) {
			return nil, fmt.Errorf(
				"the kubelet has allocated %d device(s) of %s to the pod, and interface %s needs one more: request one for each interface in resources.limits of the containers",
				len(ids),
				pool,
				decisions[i].Attachment,
			)
		}
		id := ids[taken[pool]]
		if !pciAddress.MatchString(id) {
			return nil, fmt.Errorf(
				"device %.80q of %s has no PCI address as its ID: use a device plugin whose devices are PCI functions",
				id,
				pool,
			)
		}
		decisions[i].PCI, taken[pool] = id, taken[pool]+1
	}
	return decisions, nil
}
