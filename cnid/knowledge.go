// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/cnid/cluster/networkstatus"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sriov"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/netns"
)

// knowledge is what the node knows of interfaces for the network status of pods.
func (c Config) knowledge(plugins *delegates, log *slog.Logger) networkstatus.Knowledge {
	root, _ := c.hostFiles()
	return networkstatus.Knowledge{
		Reported: plugins.reported, PF: sriov.PhysicalFunction, MTU: mtuInPod,
		Described: func(path string) *annotations.DeviceInfo {
			text, err := root.Read(path)
			var info *annotations.DeviceInfo
			if err == nil {
				info, err = annotations.ParseDeviceInfo(text)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				log.Warn("a file about a device can't be used", "path", path, "error", err)
			}
			return info
		},
	}
}

// mtuInPod returns the MTU of an interface in the pod, 0 if the interface is not there.
func mtuInPod(rec journal.Record) (mtu int) {
	pod, err := netns.Open(rec.NetnsPath)
	if err != nil {
		return 0
	}
	defer func() { _ = pod.Close() }()
	err = pod.Do(func(ns.NetNS) error {
		iface, err := net.InterfaceByName(rec.IfName)
		if err == nil {
			mtu = iface.MTU
		}
		return err
	})
	if err != nil {
		return 0
	}
	return mtu
}
