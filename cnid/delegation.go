// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/cnid/cluster/networkstatus"
	"github.com/alioth-net/alioth/cnid/cni/delegate"
	"github.com/alioth-net/alioth/cnid/cni/delegate/host"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sriov"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/netns"
)

// delegates runs other CNI plugins of the node.
type delegates struct {
	*delegate.Delegates
	// files has the configurations of networks of DANM with a static type.
	files host.ConfDir
}

// newDelegates returns nil if the daemon runs no other plugins. Their files outlive a
// reboot, because the plugins' DEL needs them afterwards.
func newDelegates(cfg Config, log *slog.Logger) (*delegates, error) {
	if !cfg.Delegation {
		return nil, nil
	}
	root, mounts := cfg.hostFiles()
	if _, err := os.Stat(mounts); err != nil {
		return nil, fmt.Errorf(
			"find the node's mount namespace (does the daemon share the node's PID namespace, hostPID?): %w",
			err,
		)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the daemon's own program: %w", err)
	}
	d, err := delegate.New(delegate.Config{
		Dir: cfg.delegatesDir(), Plugins: []string{cfg.CNIBinDir}, Root: root, Enter: host.Enter(self, mounts),
		Wait: cfg.DelegationWait, Log: log,
	})
	if err != nil {
		return nil, err
	}
	return &delegates{d, host.ConfDir{Path: cfg.CNIConfDir, Root: root}}, nil
}

// hostFiles returns root directory and mount namespace of the process that has the node's
// files.
func (c Config) hostFiles() (root host.Root, mounts string) {
	if c.DelegationHost == HostParent {
		return host.Of(os.Getppid())
	}
	return host.RootOfNode, host.MountsOfNode
}

// registry returns the drivers of the daemon: others, and the driver of plugins.
func (d *delegates) registry(others ifdriver.Registry) ifdriver.Registry {
	if d == nil {
		return others
	}
	return drivers.WithDelegates(others, d.files, func() (*delegate.Delegates, error) { return d.Delegates, nil })
}

// listEvery is the interval between listings of the node's configurations.
const listEvery = 5 * time.Second

// configured reports the NetworkIDs that the node has configurations for, again and again, until
// ctx ends.
func (d *delegates) configured(ctx context.Context, report func(ids []string), log *slog.Logger) {
	if d == nil {
		return
	}
	tick := time.NewTicker(listEvery)
	defer tick.Stop()
	for {
		ids, all, err := d.files.NetworkIDs()
		if err != nil {
			log.Warn("can't list the CNI configurations of the node; trying again", "error", err)
		}
		switch {
		case err != nil || !all:
			report(nil)
		default:
			report(append([]string{}, ids...))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reported returns the plugins' report about an attachment, nil for an attachment without
// plugins.
func (d *delegates) reported(rec journal.Record) *ifdriver.Result {
	if d == nil {
		return nil
	}
	kept, err := d.Get(rec.ContainerID, rec.IfName)
	if err != nil {
		return nil
	}
	result, err := kept.Result()
	if err != nil {
		return nil
	}
	return result
}

// knowledge returns the node's knowledge of interfaces for the network status of pods.
func (c Config) knowledge(plugins *delegates, log *slog.Logger) networkstatus.Knowledge {
	root, _ := c.hostFiles()
	return knowledge{plugins, root, log}
}

// knowledge is the networkstatus.Knowledge of a node.
type knowledge struct {
	plugins *delegates
	root    host.Root
	log     *slog.Logger
}

// Reported implements networkstatus.Knowledge.
func (k knowledge) Reported(rec journal.Record) *ifdriver.Result { return k.plugins.reported(rec) }

// PF implements networkstatus.Knowledge.
func (knowledge) PF(pci string) string { return sriov.PhysicalFunction(pci) }

// Described implements networkstatus.Knowledge.
func (k knowledge) Described(path string) *annotations.DeviceInfo {
	text, err := k.root.Read(path)
	var info *annotations.DeviceInfo
	if err == nil {
		info, err = annotations.ParseDeviceInfo(text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.log.Warn("a file about a device can't be used", "path", path, "error", err)
	}
	return info
}

// MTU implements networkstatus.Knowledge. It returns 0 if the interface is not there.
func (knowledge) MTU(rec journal.Record) (mtu int) {
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
